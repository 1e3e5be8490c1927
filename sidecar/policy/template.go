package policy

import "strings"

// Template returns a commented policy for a new operator. It is a policy: it
// parses to the values of one that says only `version: 1`.
func Template() string { return template }

// TemplateWith is the template with the address of a package registry filled in.
// An address that no policy takes gives an error.
func TemplateWith(registry string) (string, error) {
	filled := strings.Replace(template, commentedRegistry, "packages:\n  registry: \""+registry+"\"   # what npm config get registry printed\n", 1)
	if _, err := Parse("template", []byte(filled)); err != nil {
		return "", err
	}
	return filled, nil
}

const commentedRegistry = "#packages:\n#  registry: https://registry.example.test/   # what npm config get registry prints\n"

const template = `# The operator's policy. docs/policy.md explains each field.
# A field behind a # is an example; the others stand at their defaults.
version: 1

# What the agent runs in.
agent:
  engine: local            # local, docker, containerd or kubernetes
  runtime: runc            # runc, or runsc (gVisor)
  image:
    kind: host             # host: this machine's own programs, read-only; rootfs: a directory; image: the engine's
    #ref: /srv/rootfs      # rootfs: its absolute path; image: its reference
  #command: [my-agent]     # when proctor run is given no command
  #env:                    # the agent's environment is empty but for these
  #  LANG: C.UTF-8
  #env_pass: [TERM]        # taken from the launcher's environment; never secrets
  limits:
    memory: 2GiB
    pids: 512
    cpus: 2
    open_files: 4096
  output: 64MiB            # standard output and error together
  timeout: 1h
  grace: 10s               # between SIGTERM and SIGKILL
  #mounts:
  #  - source: /opt/tools
  #    target: /opt/tools
  #    writable: false

# Commands that judge the product, each in a fresh container without keys.
checks: []
#checks:
#  - name: unit
#    argv: [python3, tests/run.py]
#    image: {kind: host}   # the agent's image, if left out
#    dir: .
#    expect: 0
#    timeout: 10m
#    output: 16MiB         # more is a failure
#    limits: {memory: 2GiB, pids: 512, cpus: 2, open_files: 4096}
#    files:                # the operator's own, over the product's
#      - from: /home/me/checks/run.py
#        to: tests/run.py
#    form: one-process     # or two-process: a driver from the image runs the product as its child

# What of the product the agent does not get, and apply never deletes.
stage:
  exclude: []              # such as "**/.env"; a pattern that starts with a star needs quotes

# Paths of the product whose change is always FAIL.
protected: []

# What a finding of a class does: fail, or list.
classes:
  review: list             # files that run when you build, test or push
  tree: fail               # node_modules, .venv

# Limits of the audit's walk.
audit:
  max_entries: 1000000
  max_file_size: 4GiB
  max_total_size: 64GiB
  timeout: 10m

# What you agree to do without, by name: runtime-floor, one-identity, no-limits, shared-network.
allow: []

# PASS from results that were reported from inside a chain of containers: refuse or allow.
observer:
  chain: refuse

# Packages reach the agent through the supervisor, approved ones only. No registry: no packages.
#packages:
#  registry: https://registry.example.test/   # what npm config get registry prints
#  allow: ["@me/*"]        # names that need no approval
#  deny: []                # names that no approval helps

# Hosts that the agent may reach, through the supervisor only. A closed door: none.
egress:
  door: closed             # or open: then proctor allow-host and these lists decide
  #allow: [api.example.test:443, "*.example.test:443"]
  deny: []

# APIs whose credentials the supervisor adds; the agent never has them.
services: []
#services:
#  - name: model
#    preset: openai        # openai, anthropic, gemini, mistral, openrouter, deepseek; or base and auth:
#    base: https://api.example.test
#    auth: {kind: header, name: Authorization, prefix: "Bearer "}
#    secret: {keyring: model}
#    methods: [GET, POST]
#    paths: [/v1/]

# Ports of the agent's own loopback interface that lead to the doors.
ports:
  proxy: 3128
  npm: 4873
  services: 4100
`
