package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/product"
	"golang.org/x/sys/unix"
)

const gitConfig = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[user]\n\tname = me\n"

func baseProduct() map[string]string {
	return map[string]string{
		"README.md": "hello", "src/main.go": "package main", ".git/config": gitConfig, ".git/HEAD": "ref: refs/heads/main\n",
		".git/hooks/pre-commit.sample": "#!/bin/sh\n", ".git/objects/": "", ".git/refs/heads/": "",
		"package.json": `{"name":"p","scripts":{"test":"jest","build":"tsc"}}`, "Makefile": "all:\n", "conftest.py": "",
	}
}

// Each row is a change that runs something without anybody asking for it. The
// same session without the change passes (TestCaseA7NothingChanged).
func TestCaseA7Traps(t *testing.T) {
	for _, c := range []struct {
		name  string
		base  map[string]string
		agent map[string]string
		want  []string
	}{
		{name: "hook", agent: map[string]string{".git/hooks/post-checkout": "x"}, want: []string{"trap git-hook .git/hooks/post-checkout new"}},
		{name: "hook of any name", agent: map[string]string{".git/hooks/future": "x"}, want: []string{"trap git-hook .git/hooks/future new"}},
		{name: "hook as a link", agent: map[string]string{".git/hooks/pre-push": "->../../src/main.go"}, want: []string{"trap git-link .git/hooks/pre-push new", "trap git-hook src/main.go new"}},
		{
			name: "hooks directory as a link", base: map[string]string{"evil/pre-commit": "x"}, agent: map[string]string{".git/modules/m/hooks": "->../../../evil"},
			want: []string{"trap git-link .git/modules/m/hooks new", "trap git-hook evil/pre-commit new"},
		},
		{name: "submodule's hook", agent: map[string]string{".git/modules/sub/hooks/update": "x"}, want: []string{"trap git-hook .git/modules/sub/hooks/update new"}},
		{name: "nested repository's hook", agent: map[string]string{"vendor/x/.git/hooks/pre-commit": "x"}, want: []string{"trap git-hook vendor/x/.git/hooks/pre-commit new"}},
		{name: "case", agent: map[string]string{".GIT/hooks/pre-commit": "x"}, want: []string{"trap git-hook .GIT/hooks/pre-commit new"}},
		{name: "fsmonitor", agent: config("[core]\n\tfsmonitor = ./evil\n"), want: []string{"trap git-config .git/config new"}},
		{name: "hooksPath", agent: config("[core]\nhooksPath = src\n"), want: []string{"trap git-config .git/config new", "trap git-hook src/main.go new"}},
		{name: "sshCommand", agent: config("[core] sshCommand = evil\n"), want: []string{"trap git-config .git/config new"}},
		{name: "pager", agent: config("[core]\n pager=\"ev\" ; x\n"), want: []string{"trap git-config .git/config new"}},
		{name: "pager of a command", agent: config("[pager]\nlog = evil\n"), want: []string{"trap git-config .git/config new"}},
		{name: "filter", agent: config("[filter \"x\"]\n\tclean = evil\n\tsmudge = evil\n"), want: []string{"trap git-config .git/config new", "trap git-config .git/config new"}},
		{name: "textconv", agent: config("[diff \"x\"]\n\ttextconv = evil\n"), want: []string{"trap git-config .git/config new"}},
		{name: "old style subsection", agent: config("[diff.x]\n\ttextconv = evil\n"), want: []string{"trap git-config .git/config new"}},
		{name: "continued line", agent: config("[core]\n\tedi\\\ntor = evil\n"), want: []string{"trap unparsed .git/config new"}},
		{name: "continued value", agent: config("[core]\n\teditor = ev\\\nil\n"), want: []string{"trap git-config .git/config new"}},
		{name: "unparsed before and after", base: map[string]string{".git/config": "[core"}, agent: map[string]string{".git/config": "[alias"}, want: []string{"trap unparsed .git/config changed"}},
		{name: "external diff", agent: config("[DIFF]\nEXTERNAL = evil\n"), want: []string{"trap git-config .git/config new"}},
		{name: "credential helper", agent: config("[credential \"https://x\"]\nhelper = !evil\n"), want: []string{"trap git-config .git/config new"}},
		{name: "alias", agent: config("[alias]\n st = !evil\n"), want: []string{"trap git-config .git/config new"}},
		{name: "configured hook", agent: config("[hook \"x\"]\n command = evil\n event = pre-commit\n"), want: []string{"trap git-config .git/config new", "trap git-config .git/config new"}},
		{name: "remote helper", agent: config("[remote \"o\"]\nurl = ext::sh -c evil\n"), want: []string{"trap git-config .git/config new"}},
		{
			name: "include", agent: with(config("[include]\n\tpath = ../inc\n"), "inc", "[core]\nfsmonitor=x\n"),
			want: []string{"trap git-config .git/config new", "trap git-link inc new"},
		},
		{name: "includeIf", agent: config("[includeIf \"gitdir:/\"]\n\tpath = /etc/evil\n"), want: []string{"trap git-config .git/config new"}},
		{
			name: "include's target", base: with(config("[include]\n\tpath = ../conf/inc\n"), "conf/inc", "[user]\nname=x\n"), agent: map[string]string{"conf/inc": "[core]\nfsmonitor=x\n"},
			want: []string{"trap git-link conf/inc changed"},
		},
		{
			name: "include's target through a link", base: with(with(config("[include]\n\tpath = ../l\n"), "conf/inc", "[user]\n"), "l", "->conf/inc"), agent: map[string]string{"conf/inc": "[alias]\n"},
			want: []string{"trap git-link conf/inc changed"},
		},
		{
			name: "nested include", base: with(with(config("[include]\n\tpath = ../a\n"), "a", "[include]\npath=z/b\n"), "z/b", ""), agent: map[string]string{"z/b": "[core]\npager=x\n"},
			want: []string{"trap git-link z/b changed"},
		},
		{
			name: "hooksPath's target", base: with(config("[core]\nhooksPath = tools/h\n"), "tools/h/pre-commit", "ok"), agent: map[string]string{"tools/h/pre-commit": "evil"},
			want: []string{"trap git-hook tools/h/pre-commit changed"},
		},
		{
			name: "linked hook's target", base: map[string]string{".git/hooks/pre-commit": "->../../tools/check.sh", "tools/check.sh": "ok"}, agent: map[string]string{"tools/check.sh": "evil"},
			want: []string{"trap git-hook tools/check.sh changed"},
		},
		{name: "config.worktree", agent: map[string]string{".git/config.worktree": "[core]\nfsmonitor = x\n"}, want: []string{"trap git-config .git/config.worktree new"}},
		{name: "submodule's configuration", agent: map[string]string{".git/modules/s/config": "[core]\nfsmonitor = x\n"}, want: []string{"trap git-config .git/modules/s/config new"}},
		{
			name: ".git as a file", agent: map[string]string{"sub/.git": "gitdir: ../real\n", "real/config": "[core]\nfsmonitor=x\n"},
			want: []string{"trap git-config real/config new", "trap git-link sub/.git new", "trap git-link real/config new"},
		},
		{name: ".git as a link", agent: map[string]string{"sub/.git": "->../src"}, want: []string{"trap git-link sub/.git new"}},
		{name: "bare repository of another name", agent: map[string]string{"docs/HEAD": "ref: x", "docs/config": "[core]\n bare = true\n fsmonitor = evil\n"}, want: []string{"trap git-config docs/config new"}},
		{name: "commondir", agent: map[string]string{".git/commondir": "../src\n"}, want: []string{"trap git-link .git/commondir new"}},
		{name: "envrc", agent: map[string]string{".envrc": "x"}, want: []string{"trap direnv .envrc new"}},
		{name: "mise", agent: map[string]string{"mise.toml": "x", "a/.mise.local.toml": "x"}, want: []string{"trap mise a/.mise.local.toml new", "trap mise mise.toml new"}},
		{name: "mcp", agent: map[string]string{".mcp.json": "{}"}, want: []string{"trap agent-tool .mcp.json new"}},
		{
			name: "agent tools", agent: map[string]string{".claude/settings.json": "{}", ".codex/config.toml": "", ".cursor/mcp.json": "{}"},
			want: []string{"trap agent-tool .claude/settings.json new", "trap agent-tool .codex/config.toml new", "trap agent-tool .cursor/mcp.json new"},
		},
		{
			name: "agent tools behind a link", base: map[string]string{".claude": "->shared", "shared/settings.json": "{}"}, agent: map[string]string{"shared/settings.json": "evil"},
			want: []string{"trap agent-tool shared/settings.json changed"},
		},
		{name: "folder open", agent: map[string]string{".vscode/tasks.json": "{// \"\n\"runOptions\":{\"runOn\":\"folder\\u004fpen\"},}"}, want: []string{"trap editor .vscode/tasks.json new"}},
		{name: "tasks that cannot be read", agent: map[string]string{".vscode/tasks.json": "{\"a"}, want: []string{"trap unparsed .vscode/tasks.json new"}},
		{name: "editor settings", agent: map[string]string{".vscode/settings.json": "{}"}, want: []string{"trap editor .vscode/settings.json new"}},
		{name: "devcontainer", agent: map[string]string{".devcontainer/devcontainer.json": "{}"}, want: []string{"trap devcontainer .devcontainer/devcontainer.json new"}},
		{name: "install script", agent: map[string]string{"package.json": `{"scripts":{"test":"jest","build":"tsc","postinstall":"evil"}}`}, want: []string{"trap install-script package.json new"}},
		{name: "install script, second key", agent: map[string]string{"package.json": `{"scripts":{},"scripts":{"test":"jest","build":"tsc","prepare":"evil"}}`}, want: []string{"trap install-script package.json new"}},
		{name: "workspace's install script", agent: map[string]string{"packages/a/package.json": `{"scripts":{"install":"evil"}}`}, want: []string{"trap install-script packages/a/package.json new"}},
		{name: "gyp", agent: map[string]string{"binding.gyp": "{}"}, want: []string{"trap install-script binding.gyp new"}},
		{name: "python", agent: map[string]string{"sitecustomize.py": "x", "lib/x.pth": "import evil"}, want: []string{"trap python-startup lib/x.pth new", "trap python-startup sitecustomize.py new"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := baseProduct()
			for k, v := range c.base {
				files[k] = v
			}
			s := newSession(t, files)
			s.write(c.agent)
			r := s.judge(audit.Input{Review: audit.List})
			findings, _ := lines(r)
			if strings.Join(findings, "\n") != strings.Join(c.want, "\n") || r.Unapproved() == 0 {
				t.Errorf("findings\n got %q\nwant %q", findings, c.want)
			}
		})
	}
}

func config(more string) map[string]string { return map[string]string{".git/config": gitConfig + more} }

func with(m map[string]string, k, v string) map[string]string {
	n := map[string]string{k: v}
	for k, v := range m {
		n[k] = v
	}
	return n
}

func TestCaseA7NothingChanged(t *testing.T) {
	files := baseProduct()
	files[".git/hooks/pre-commit"] = "x"
	files[".envrc"] = "x"
	files[".git/config"] += "[alias]\n\tst = status\n[include]\n\tpath = ../inc\n"
	files["inc"] = "[core]\n\tpager = less\n"
	expect(t, newSession(t, files).judge(audit.Input{}), nil, nil)
}

func TestCaseA7HonestWorkPasses(t *testing.T) {
	s := newSession(t, baseProduct())
	s.write(map[string]string{
		"src/main.go": "package main // better", "src/new.go": "package main", "docs/config": "plain text = yes",
		"package.json": `{"name":"p","version":"2.0.0","scripts":{"test":"vitest","build":"tsc"}}`,
		"Makefile":     "all:\nnew:\n", "conftest.py": "import pytest", ".github/workflows/ci.yml": "on: push",
		".npmrc": "x", ".cargo/config.toml": "x", ".gitattributes": "x", "hooks/useState.ts": "x",
		".git/config":        gitConfig + "[branch \"x\"]\n\tremote = origin\n[remote \"origin\"]\n\turl = https://example.test/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
		".vscode/tasks.json": `{"tasks":[{"label":"build"}]}`,
	})
	must(t, os.Remove(s.path("README.md")))
	want := []string{
		"review package-manager .cargo/config.toml new", "review git-config .git/config new", "review git .gitattributes new",
		"review ci .github/workflows/ci.yml new", "review package-manager .npmrc new", "review tool-config .vscode/tasks.json new",
		"review build Makefile changed", "review test conftest.py changed", "review script package.json changed",
	}
	r := s.judge(audit.Input{Review: audit.List})
	expect(t, r, nil, want)
	if r.Added < 5 || r.Changed < 4 || r.Removed != 1 {
		t.Errorf("counts %d %d %d", r.Added, r.Changed, r.Removed)
	}
	for _, v := range r.Reviews {
		if v.SHA256 == "" || v.Status == audit.StatusChanged && v.BaselineSHA256 == "" {
			t.Errorf("digests missing: %+v", v)
		}
	}
	// review: fail, the zero value.
	expect(t, s.judge(audit.Input{}), want, nil)
}

// A commit by git itself, with everything that git writes for it.
func TestCaseA7CommitPasses(t *testing.T) {
	src := t.TempDir()
	git(t, src, "init", "-q", "-b", "main")
	write(t, src, map[string]string{"a.txt": "one", "Makefile": "all:\n"})
	git(t, src, "add", ".")
	git(t, src, "commit", "-q", "-m", "first")
	s := stageOf(t, src)
	s.write(map[string]string{"a.txt": "two", "b.txt": "three"})
	git(t, s.stage, "checkout", "-q", "-b", "topic")
	git(t, s.stage, "add", ".")
	git(t, s.stage, "commit", "-q", "-m", "second")
	git(t, s.stage, "gc", "-q")
	git(t, s.stage, "tag", "-a", "-m", "x", "v1")
	r := s.judge(audit.Input{})
	expect(t, r, nil, nil)
	if r.Changed == 0 || r.Added == 0 {
		t.Error("nothing happened")
	}
	// Positive control: the same repository with a hook.
	s.write(map[string]string{".git/hooks/post-commit": "#!/bin/sh\n"})
	expect(t, s.judge(audit.Input{}), []string{"trap git-hook .git/hooks/post-commit new"}, nil)
}

func TestCaseA7ApprovedByContent(t *testing.T) {
	s := newSession(t, baseProduct())
	s.write(map[string]string{".envrc": "export A=1", ".mcp.json": "{}"})
	approve := func(content string) func(string, [32]byte) bool {
		return func(path string, sum [32]byte) bool {
			return path == ".envrc" && sum == sha256.Sum256([]byte(content))
		}
	}
	r := s.judge(audit.Input{Approved: approve("export A=1")})
	if len(r.Findings) != 2 || !r.Findings[0].Approved || r.Findings[1].Approved || r.Unapproved() == 0 {
		t.Errorf("%+v", r.Findings)
	}
	if r := s.judge(audit.Input{Approved: approve("export A=2")}); r.Findings[0].Approved {
		t.Error("approved with other content")
	}
	must(t, os.Remove(s.path(".mcp.json")))
	if r := s.judge(audit.Input{Approved: approve("export A=1")}); r.Unapproved() > 0 {
		t.Errorf("%+v", r.Findings)
	}
	if r := s.judge(audit.Input{}); r.Unapproved() == 0 {
		t.Error("nil approves")
	}
	sum := sha256.Sum256([]byte("export A=1"))
	if r := s.judge(audit.Input{}); r.Findings[0].SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("digest %s", r.Findings[0].SHA256)
	}
}

// TestCaseA7WhatNpmFetches: a dependency that only package.json names is listed,
// with what it is; the order and the space of the file are nothing.
func TestCaseA7WhatNpmFetches(t *testing.T) {
	s := newSession(t, map[string]string{"package.json": `{"name":"x","dependencies":{"a":"1.0.0"}}`})
	s.write(map[string]string{"package.json": `{"dependencies": {"a": "1.0.0"}, "name": "y"}`})
	expect(t, s.judge(audit.Input{Review: audit.List}), nil, nil)
	s.write(map[string]string{"package.json": `{"name":"x","dependencies":{"a":"git+ssh://h.example/x"},"overrides":{"b":"2"}}`})
	r := s.judge(audit.Input{Review: audit.List})
	expect(t, r, nil, []string{"review dependencies package.json changed", "review dependencies package.json new"})
	if got := r.Reviews[0].Detail; got != `dependencies: {"a":"git+ssh://h.example/x"}` {
		t.Errorf("detail %q", got)
	}
	if r := s.judge(audit.Input{}); r.Unapproved() == 0 {
		t.Error("review: fail does not fail")
	}
	s.write(map[string]string{"package.json": `{"name":"x"}`})
	expect(t, s.judge(audit.Input{Review: audit.List}), nil, []string{"review dependencies package.json removed"})
}

func TestCaseA7Protected(t *testing.T) {
	protected := func(path string) bool { return strings.HasPrefix(path, "src/") }
	all := func(string, [32]byte) bool { return true }
	s := newSession(t, baseProduct())
	expect(t, s.judge(audit.Input{Protected: protected}), nil, nil)
	s.write(map[string]string{"src/main.go": "x", "src/new": "y", "other": "z"})
	expect(t, s.judge(audit.Input{Protected: protected, Approved: all}), []string{"protected protected src/main.go changed", "protected protected src/new new"}, nil)
	must(t, os.RemoveAll(s.path("src/main.go")))
	must(t, os.Remove(s.path("src/new")))
	expect(t, s.judge(audit.Input{Protected: protected, Approved: all}), []string{"protected protected src/main.go removed"}, nil)
	s.write(map[string]string{"src/main.go": "package main"})
	must(t, os.Chmod(s.path("src/main.go"), 0o755))
	expect(t, s.judge(audit.Input{Protected: protected, Approved: all}), []string{"protected protected src/main.go changed"}, nil)
}

func TestCaseA7DependenciesAreOneFindingEach(t *testing.T) {
	files := baseProduct()
	files["node_modules/old/index.js"] = "x"
	files["node_modules/same/index.js"] = "x"
	s := newSession(t, files)
	s.write(map[string]string{
		"node_modules/new/package.json": `{"scripts":{"postinstall":"x"}}`, "node_modules/new/a/b.js": "x", "node_modules/new-er/x.js": "",
		"node_modules/@s/p/a.js": "x", "node_modules/old/index.js": "y", ".venv/lib/python3.12/site-packages/q/__init__.py": "",
		".venv/lib/python3.12/site-packages/q.pth": "import evil", ".venv/bin/python": "->/usr/bin/python3",
	})
	want := []string{
		"tree dependency .venv new", "tree dependency .venv/bin new", "tree dependency .venv/lib new",
		"tree dependency .venv/lib/python3.12/site-packages new", "tree dependency .venv/lib/python3.12/site-packages/q new",
		"tree dependency .venv/lib/python3.12/site-packages/q.pth new", "tree dependency node_modules/@s new",
		"tree dependency node_modules/@s/p new", "tree dependency node_modules/new new", "tree dependency node_modules/new-er new",
		"tree dependency node_modules/old changed",
	}
	r := s.judge(audit.Input{})
	expect(t, r, want, nil)
	expect(t, s.judge(audit.Input{Tree: audit.List}), nil, want)
	// A hook is a trap also there.
	s.write(map[string]string{"node_modules/new/.git/hooks/pre-commit": "x"})
	if f, _ := lines(s.judge(audit.Input{Tree: audit.List})); len(f) != 1 || f[0] != "trap git-hook node_modules/new/.git/hooks/pre-commit new" {
		t.Errorf("%q", f)
	}
}

func TestCaseA5SetIDAndWritable(t *testing.T) {
	s := newSession(t, baseProduct())
	must(t, os.Chmod(s.path("README.md"), 0o755|os.ModeSetuid))
	must(t, os.Chmod(s.path("src"), 0o755|os.ModeSetgid))
	must(t, os.Chmod(s.path("Makefile"), 0o646))
	must(t, os.Chmod(s.path("conftest.py"), 0o755))
	expect(t, s.judge(audit.Input{}), []string{"trap world-writable Makefile changed", "trap setid README.md changed", "trap setid src changed"}, nil)
}

func TestCaseA5HardLinkOutsideFails(t *testing.T) {
	s := newSession(t, baseProduct())
	must(t, os.Link(s.path("README.md"), s.path("second")))
	expect(t, s.judge(audit.Input{}), nil, nil)
	must(t, os.Link(s.path("README.md"), s.stage+".outside"))
	t.Cleanup(func() { os.Remove(s.stage + ".outside") })
	expect(t, s.judge(audit.Input{}), []string{"trap hard-link README.md new"}, nil)
}

func TestCaseA2SpecialFileFails(t *testing.T) {
	s := newSession(t, baseProduct())
	must(t, os.Remove(s.path("package.json")))
	must(t, unix.Mkfifo(s.path("package.json"), 0o644))
	must(t, unix.Mknod(s.path("sock"), unix.S_IFSOCK|0o600, 0))
	all := func(string, [32]byte) bool { return true }
	f, _ := lines(s.judge(audit.Input{Review: audit.List, Approved: all}))
	if strings.Join(f, ",") != "trap special-file package.json changed,trap special-file sock new" {
		t.Errorf("%q", f)
	}
}

func TestCaseA3LimitFails(t *testing.T) {
	s := newSession(t, baseProduct())
	s.write(map[string]string{"big": ""})
	must(t, os.Truncate(s.path("big"), 1<<40))
	all := func(string, [32]byte) bool { return true }
	r := s.judge(audit.Input{Approved: all})
	expect(t, r, []string{"limit limit big "}, nil)
	if r.Final.Complete {
		t.Error("complete")
	}
}

func TestJudgeBoundsItsResult(t *testing.T) {
	s := newSession(t, baseProduct())
	for i := range audit.MaxFindings + 10 {
		s.write(map[string]string{fmt.Sprintf("d/%d.pth", i): "x"})
	}
	all := func(string, [32]byte) bool { return true }
	r := s.judge(audit.Input{Approved: all})
	if n := len(r.Findings); n != audit.MaxFindings+1 || r.Findings[n-1].Kind != "more-findings" || r.Unapproved() == 0 {
		t.Errorf("%d findings, not approved %d", n, r.Unapproved())
	}
}

func TestJudgeRefusesDamagedStreams(t *testing.T) {
	s := newSession(t, baseProduct())
	final := s.stream()
	for name, pair := range map[string][2][]byte{
		"baseline": {s.baseline[:len(s.baseline)-1], final}, "final": {s.baseline, final[:len(final)/2]}, "empty": {s.baseline, nil},
	} {
		_, err := audit.Judge(audit.Input{
			Baseline: product.NewDecoder(bytes.NewReader(pair[0]), product.StreamLimits{}),
			Final:    product.NewDecoder(bytes.NewReader(pair[1]), product.StreamLimits{}),
		})
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestJudgeTeesTheManifest(t *testing.T) {
	s := newSession(t, baseProduct())
	s.write(map[string]string{"new": "x"})
	var got, want bytes.Buffer
	w := product.NewManifestWriter(&got)
	s.judge(audit.Input{Tee: w})
	sum, err := w.Close()
	must(t, err)
	expected, _, err := product.ManifestOf(bytes.NewReader(s.stream()), &want, product.StreamLimits{})
	must(t, err)
	if sum != expected || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Error("manifests differ")
	}
}

// git-exec covers hooks and program-running configuration, and nothing else.
func TestGitExecDigest(t *testing.T) {
	s := newSession(t, baseProduct())
	exec := func() product.Summary { return s.judge(audit.Input{}).Final }
	before := exec()
	s.write(map[string]string{".git/index": "x", ".git/config": gitConfig + "[user]\nname=y\n", "src/x": "y"})
	if after := exec(); after.GitExec != before.GitExec || after.Tree == before.Tree {
		t.Error("ordinary changes count")
	}
	s.write(map[string]string{".git/hooks/update": "x"})
	hook := exec()
	s.write(map[string]string{".git/hooks/update": "y"})
	other := exec()
	s.write(map[string]string{".git/config": gitConfig + "[core]\npager=x\n"})
	if conf := exec(); hook.GitExec == before.GitExec || other.GitExec == hook.GitExec || conf.GitExec == other.GitExec {
		t.Error("a hook or a setting does not count")
	}
}
