# make            bin/proctor and what it needs beside it
# make setup      the Debian packages that building and testing need
# make image      the programs as an image, loaded into docker; image-archive: the file;
#                 image-files: what the Dockerfile adds
# make demo       the tour of scripts/demo; demo-compose: as a docker compose stack;
#                 demo-kubernetes: as Pods, on a cluster that is built (10 minutes, once)
# make test       every test, with the race detector
# make check      format, vet, lint, known vulnerabilities, fuzzing
# make test-gvisor, make test-containerd, make test-kubernetes, make bench
# make install PREFIX=/usr/local
#
# FUZZTIME=30s is the time of each fuzz target in `make check`; PACKAGES=./...
# narrows test, check and bench. `make help` prints this.

GO ?= go
# The standard library of the Go that go.mod asks for at least has open
# advisories; its toolchain line names one without. The go command fetches it.
export GOTOOLCHAIN := $(shell sed -n 's/^toolchain //p' go.mod)

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/proctor
TOOLS := $(CACHE)/tools/$(GOTOOLCHAIN)-$(shell cksum < tools/go.sum | tr ' ' -)
PACKAGES ?= ./...
FUZZTIME ?= 30s
PREFIX ?= /usr/local
DESTDIR ?=

# Static, and the same bytes wherever they are built.
BUILD = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w'
# A developer's machine need not have every engine; CI's does.
STRICT = $(if $(CI),-strict)

.PHONY: all
all: build bin/runc

.PHONY: build
build:
	@mkdir -p bin
	$(BUILD) -o bin/ ./cmd/proctor ./cmd/proctor-sidecar ./cmd/proctor-agent

# The scripts keep what they built, and copy only what differs.
.PHONY: bin/runc
bin/runc:
	@scripts/runtime runc bin/runc

.PHONY: runsc
runsc:
	@scripts/runtime runsc bin/runsc

# A current docker compose, for tests.
.PHONY: compose
compose:
	@scripts/runtime compose bin/docker-compose

# The programs as an image; nothing is pulled, and the bytes are the same each time.
.PHONY: image-archive
image-archive: build
	bin/proctor render image > bin/proctor-image.tar

# For a builder: docker build . after this. Its image has the same files.
.PHONY: image-files
image-files: build
	bin/proctor render image --files > bin/proctor-image-files.tar

.PHONY: image
image: image-archive
	docker load --input bin/proctor-image.tar

.PHONY: setup
setup:
	@scripts/setup

.PHONY: bin/demo-agent
bin/demo-agent:
	$(BUILD) -o bin/demo-agent ./sandbox/sandboxtest/hostile

.PHONY: demo
demo: all bin/demo-agent
	scripts/demo

.PHONY: demo-kubernetes
demo-kubernetes: build bin/demo-agent
	scripts/kubernetes build
	scripts/kubernetes run scripts/demo-kubernetes

.PHONY: demo-compose
demo-compose: build bin/demo-agent
	scripts/demo-compose

.PHONY: test
test: all $(TOOLS)/testcount
	$(TOOLS)/testcount $(STRICT) -expect tools/expected-tests.txt -- \
		$(GO) test -json -race -shuffle=on -timeout 45m $(PACKAGES)

# What gVisor's sandbox does for agents and checks; runsc is built for it.
.PHONY: test-gvisor
test-gvisor: all runsc $(TOOLS)/testcount
	$(TOOLS)/testcount $(STRICT) -expect tools/expected-tests-gvisor.txt -- \
		$(GO) test -json -count=1 -tags gvisor -timeout 30m -run '^TestGVisor' ./sandbox/local ./sandbox/launch

# The engine containerd on a current containerd, which is built for it, and with
# agents and checks on gVisor; make test has it on the distribution's.
.PHONY: test-containerd
test-containerd: all runsc $(TOOLS)/testcount
	@scripts/runtime containerd bin/containerd/containerd
	@scripts/runtime containerd-shim-runc-v2 bin/containerd/containerd-shim-runc-v2
	PROCTOR_TEST_CONTAINERD=$(CURDIR)/bin/containerd $(TOOLS)/testcount $(STRICT) -expect tools/expected-tests-containerd.txt -- \
		$(GO) test -json -count=1 -tags gvisor -timeout 30m -run '^(TestConformance|TestDaemonKilled|TestGVisor|TestGVisorHangs|TestContainerd|TestContainerdGVisor)$$' ./sandbox/containerd ./sandbox/launch

# A Kubernetes of one node, once for all packages, which goes whatever happens.
# It has no way out: everything is fetched before.
KUBERNETES = ./sandbox/kubernetes/... ./cmd/proctor
.PHONY: test-kubernetes
test-kubernetes: all $(TOOLS)/testcount
	scripts/kubernetes build
	$(GO) vet -tags kubernetes $(KUBERNETES)
	scripts/kubernetes run $(TOOLS)/testcount $(STRICT) -expect tools/expected-tests-kubernetes.txt -- \
		$(GO) test -json -count=1 -tags kubernetes -timeout 45m -run '^Test(Kubernetes|Pod|Restricted|Overlays)' $(KUBERNETES)

.PHONY: bench
bench: all
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m $(PACKAGES)

.PHONY: check
check: check-format check-modules check-vet check-lint check-vulnerabilities check-fuzz

.PHONY: check-format
check-format: $(TOOLS)/gofumpt
	@out=$$($(TOOLS)/gofumpt -l . 2>&1); [ -z "$$out" ] || { echo "not formatted (gofumpt -w FILE):"; echo "$$out"; exit 1; }

.PHONY: check-modules
check-modules:
	$(GO) mod tidy -diff
	$(GO) -C tools mod tidy -diff
	$(GO) -C tools/kubernetes mod tidy -diff

.PHONY: check-vet
check-vet:
	$(GO) vet $(PACKAGES)
	$(GO) vet -tags gvisor ./sandbox/local ./sandbox/containerd ./sandbox/launch
	$(GO) vet -tags kubernetes $(KUBERNETES)
	$(GO) -C tools vet ./...

.PHONY: check-lint
check-lint: $(TOOLS)/staticcheck $(TOOLS)/golangci-lint $(TOOLS)/shellfree
	$(TOOLS)/staticcheck $(PACKAGES)
	$(TOOLS)/golangci-lint run $(PACKAGES)
	$(TOOLS)/shellfree .
	@found=$$($(GO) list -deps ./cmd/proctor-sidecar ./cmd/proctor-agent | \
		grep -E '^github.com/(moby|docker|containerd|opencontainers)/|^k8s.io/|/sandbox/(local|docker|containerd|launch)$$' || true); \
	[ -z "$$found" ] || { echo "linked into what runs in containers:"; echo "$$found"; exit 1; }

.PHONY: check-vulnerabilities
check-vulnerabilities: $(TOOLS)/govulncheck
	db=$$(scripts/vulndb) && $(TOOLS)/govulncheck -db "file://$$db" $(PACKAGES)

.PHONY: check-fuzz
check-fuzz: $(TOOLS)/fuzzall
	$(TOOLS)/fuzzall -time $(FUZZTIME) -jobs 2 $(PACKAGES)

# The tools are a module of their own, so that none of their dependencies is
# the product's. They are built once for each state of that module.
$(TOOLS)/staticcheck: TOOL = honnef.co/go/tools/cmd/staticcheck
$(TOOLS)/govulncheck: TOOL = golang.org/x/vuln/cmd/govulncheck
$(TOOLS)/gofumpt: TOOL = mvdan.cc/gofumpt
$(TOOLS)/golangci-lint: TOOL = github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(addprefix $(TOOLS)/,staticcheck govulncheck gofumpt golangci-lint):
	@mkdir -p $(@D)
	CGO_ENABLED=0 $(GO) -C tools build -trimpath -o $@ $(TOOL)

# These are small and of this repository: built each time.
.PHONY: $(addprefix $(TOOLS)/,testcount fuzzall shellfree)
$(addprefix $(TOOLS)/,testcount fuzzall shellfree):
	@mkdir -p $(@D)
	@CGO_ENABLED=0 $(GO) -C tools build -trimpath -o $@ ./$(@F)

# Not cached: some read files outside of their module, which the cache does not see.
.PHONY: test-tools
test-tools:
	$(GO) -C tools test -count=1 ./...

# The launcher looks for the others beside its own file, behind the link.
.PHONY: install
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/proctor
	install -m 0755 bin/proctor bin/proctor-sidecar bin/proctor-agent bin/runc $(DESTDIR)$(PREFIX)/lib/proctor/
	if [ -x bin/runsc ]; then install -m 0755 bin/runsc $(DESTDIR)$(PREFIX)/lib/proctor/; fi
	ln -sf ../lib/proctor/proctor $(DESTDIR)$(PREFIX)/bin/proctor

.PHONY: clean
clean:
	rm -rf bin

.PHONY: help
help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile
