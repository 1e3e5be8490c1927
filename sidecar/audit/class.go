package audit

import "strings"

// Class is how much a finding weighs.
type Class string

// The classes. Findings of every class fail the audit unless they are approved,
// which those of the last three cannot be.
const (
	ClassTrap       Class = "trap"       // runs on the operator's machine on its own
	ClassReview     Class = "review"     // runs when the operator builds, tests or pushes
	ClassTree       Class = "tree"       // a dependency's files
	ClassProtected  Class = "protected"  // a path that the policy names
	ClassLimit      Class = "limit"      // beyond a limit, not looked at
	ClassUnreadable Class = "unreadable" // could not be looked at
)

// pattern is one row of the table: the file's place and what it means. Names are
// in lower case, because some operators' file systems do not tell cases apart.
type pattern struct {
	match func(parts []string) bool
	class Class
	kind  string
}

// named matches a file by its own name.
func named(names ...string) func([]string) bool {
	return func(parts []string) bool { return oneOf(parts[len(parts)-1], names) }
}

func oneOf(s string, names []string) bool {
	for _, n := range names {
		if s == n {
			return true
		}
	}
	return false
}

// affix matches a file whose name has the prefix and the suffix.
func affix(prefix, suffix string) func([]string) bool {
	return func(parts []string) bool {
		name := parts[len(parts)-1]
		return len(name) >= len(prefix)+len(suffix) && strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix)
	}
}

// under matches everything below a directory of one of the names.
func under(names ...string) func([]string) bool {
	return func(parts []string) bool {
		for _, p := range parts[:len(parts)-1] {
			if oneOf(p, names) {
				return true
			}
		}
		return false
	}
}

// at matches the path's last components.
func at(path string) func([]string) bool {
	want := strings.Split(path, "/")
	return func(parts []string) bool {
		if len(parts) < len(want) {
			return false
		}
		for i, w := range want {
			if parts[len(parts)-len(want)+i] != w {
				return false
			}
		}
		return true
	}
}

// below matches everything below a directory whose last components are path.
func below(path string) func([]string) bool {
	want := strings.Split(path, "/")
	return func(parts []string) bool {
		for end := len(want); end < len(parts); end++ {
			if at(path)(parts[:end]) {
				return true
			}
		}
		return false
	}
}

// traps returns the rows of class trap. git's own files are not among them:
// see gitPlace.
func traps() []pattern {
	rows := []struct {
		kind  string
		match []func([]string) bool
	}{
		{"direnv", []func([]string) bool{named(".envrc", ".autoenv", ".autoenv.zsh", ".autoenv_leave.zsh")}},
		{"mise", []func([]string) bool{
			named("mise.toml", ".mise.toml"), affix("mise.", ".toml"), affix(".mise.", ".toml"),
			at("mise/config.toml"), at(".mise/config.toml"), at(".config/mise.toml"), below(".config/mise"), affix(".rtx", ".toml"),
		}},
		{"editor", []func([]string) bool{
			at(".vscode/settings.json"), affix("", ".code-workspace"), at(".idea/startup.xml"),
			at(".zed/settings.json"), at(".zed/tasks.json"),
			named(".exrc", ".nvimrc", ".nvim.lua", ".vimrc", ".lvimrc", ".dir-locals.el", ".dir-locals-2.el", ".ycm_extra_conf.py"),
		}},
		{"devcontainer", []func([]string) bool{under(".devcontainer"), named(".devcontainer.json", "devcontainer.json")}},
		{"agent-tool", []func([]string) bool{
			named(".mcp.json", "mcp.json", ".aider.conf.yml"),
			under(".claude", ".codex", ".cursor", ".gemini", ".continue", ".windsurf", ".kiro", ".amazonq", ".roo", ".opencode"),
		}},
		{"install-script", []func([]string) bool{named("binding.gyp")}},
		{"python-startup", []func([]string) bool{named("sitecustomize.py", "usercustomize.py"), affix("", ".pth")}},
		{"git-hook", []func([]string) bool{under(".husky")}},
	}
	var all []pattern
	for _, r := range rows {
		for _, m := range r.match {
			all = append(all, pattern{match: m, class: ClassTrap, kind: r.kind})
		}
	}
	return all
}

// reviews returns the rows of class review.
func reviews() []pattern {
	rows := []struct {
		kind  string
		match []func([]string) bool
	}{
		{"build", []func([]string) bool{
			named("makefile", "gnumakefile", "justfile", ".justfile", "rakefile", "gemfile", "cmakelists.txt", "build.rs",
				"gradlew", "gradlew.bat", "mvnw", "mvnw.cmd", "pom.xml", "meson.build", "build.zig", "configure", "dune-project",
				"setup.py", "setup.cfg", "pyproject.toml", "noxfile.py", "tox.ini", "flake.nix", "shell.nix", "default.nix", "devenv.nix",
				"vagrantfile", "procfile", "deno.json", "deno.jsonc", "build.xml", "sconstruct", "workspace", "module.bazel"),
			affix("", ".mk"), affix("taskfile.", ".yml"), affix("taskfile.", ".yaml"), affix("build.gradle", ""), affix("settings.gradle", ""),
			affix("", ".gemspec"), below("gradle/wrapper"), under(".mvn"), affix("dockerfile", ""), affix("docker-compose", ".yml"),
			affix("docker-compose", ".yaml"), affix("compose", ".yml"), affix("compose", ".yaml"), affix("build.bazel", ""),
		}},
		{"test", []func([]string) bool{
			named("conftest.py", "pytest.ini", "karma.conf.js"), affix("jest.config.", ""), affix("vitest.config.", ""),
			affix(".mocharc.", ""), affix("playwright.config.", ""), affix("cypress.config.", ""),
		}},
		{"tool-config", []func([]string) bool{
			affix("webpack.config.", ""), affix("vite.config.", ""), affix("rollup.config.", ""), affix("babel.config.", ""), affix(".babelrc", ""),
			affix(".eslintrc", ""), affix("eslint.config.", ""), affix("postcss.config.", ""), affix("next.config.", ""), affix("prettier.config.", ""),
			at(".vscode/tasks.json"), at(".vscode/launch.json"), at(".vscode/extensions.json"), under(".idea"),
			named(".gdbinit", ".lldbinit", ".tmux.conf", "lefthook.yml", ".lefthook.yml", ".pre-commit-config.yaml", ".envrc.sample", ".env"),
		}},
		{"ci", []func([]string) bool{
			below(".github/workflows"), below(".github/actions"), under(".circleci", ".buildkite", ".woodpecker"),
			named(".gitlab-ci.yml", "azure-pipelines.yml", "jenkinsfile", ".travis.yml", ".drone.yml", "bitbucket-pipelines.yml", "appveyor.yml"),
		}},
		{"package-manager", []func([]string) bool{
			named(".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "pnpm-workspace.yaml", "bunfig.toml", "pip.conf", ".pypirc",
				".tool-versions", ".python-version", ".node-version", ".nvmrc", ".ruby-version", "rust-toolchain", "rust-toolchain.toml"),
			at(".cargo/config.toml"), at(".cargo/config"), under(".yarn"), named(".pnp.cjs", ".pnp.loader.mjs"),
		}},
		{"git", []func([]string) bool{named(".gitattributes", ".gitmodules", ".lfsconfig")}},
		{"agent-instructions", []func([]string) bool{
			named("agents.md", "claude.md", "gemini.md", ".cursorrules", ".clinerules", ".windsurfrules"), at(".github/copilot-instructions.md"),
		}},
		{"policy", []func([]string) bool{named("proctor.yaml")}},
	}
	var all []pattern
	for _, r := range rows {
		for _, m := range r.match {
			all = append(all, pattern{match: m, class: ClassReview, kind: r.kind})
		}
	}
	return all
}

// otherLocks are the lock files that are not judged entry by entry. npm itself
// takes addresses and integrities from a yarn.lock where it has no lock file of
// its own.
func otherLocks() pattern {
	return pattern{match: named("yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb"), class: ClassTree, kind: KindLockFile}
}

// KindLockFile is a finding about a lock file as a whole, which an approval of
// its content covers.
const KindLockFile = "lock-file"

// classifier sorts paths by the tables.
type classifier struct{ rows []pattern }

func newClassifier() *classifier {
	return &classifier{rows: append(append(traps(), reviews()...), otherLocks())}
}

// Place says what a change of the file at path, relative to a product, would be:
// its class and kind, or "", "" for ordinary content. What the content adds to
// that is not known here.
func Place(path string) (Class, string) { return newClassifier().place(path) }

// place says what the file at path would be: its class and kind, or "", "" for
// ordinary content.
func (c *classifier) place(path string) (Class, string) {
	parts := strings.Split(strings.ToLower(path), "/")
	if class, kind, ok := gitPlace(parts); ok {
		return class, kind
	}
	for _, r := range c.rows {
		if r.match(parts) {
			return r.class, r.kind
		}
	}
	return "", ""
}

// gitPlace classifies what lies in a git directory. ok is true for everything
// there, ordinary files included.
func gitPlace(parts []string) (Class, string, bool) {
	n := len(parts)
	name := parts[n-1]
	if n >= 2 && parts[n-2] == "hooks" && gitHookName(name) {
		return ClassTrap, "git-hook", true // also in a git directory of another name
	}
	inside := -1
	for i, p := range parts[:n-1] {
		if p == ".git" {
			inside = i
			break
		}
	}
	if inside < 0 {
		return "", "", false
	}
	in := parts[inside+1:]
	for _, p := range in[:len(in)-1] {
		switch p {
		case "hooks":
			if strings.HasSuffix(name, ".sample") {
				return "", "", true
			}
			return ClassTrap, "git-hook", true
		case "rebase-merge", "rebase-apply", "sequencer":
			return ClassReview, "git", true
		}
	}
	switch {
	case name == "commondir" && !oneOf("worktrees", in):
		return ClassTrap, "git-link", true
	case name == "attributes" && len(in) > 1 && in[len(in)-2] == "info":
		return ClassReview, "git", true
	case name == "alternates" && len(in) > 1 && in[len(in)-2] == "info":
		return ClassReview, "git", true
	}
	return "", "", true
}

// gitHookName reports whether git runs a file of the name from a hooks
// directory (githooks(5)).
func gitHookName(name string) bool {
	switch name {
	case "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg",
		"commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update",
		"proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc",
		"post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist",
		"p4-post-changelist", "p4-pre-submit", "post-index-change":
		return true
	}
	return false
}

// packageDir returns the dependency that path belongs to: the outermost package
// directory below a node_modules or virtual environment, and whether it does.
func packageDir(path string) (string, bool) {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if p == ".git" {
			return "", false
		}
		n := 0
		switch p {
		case "node_modules":
			if n = 1; i+1 < len(parts) && strings.HasPrefix(parts[i+1], "@") {
				n = 2
			}
		case ".venv", "venv":
			n = 1
			for j := i + 1; j < len(parts); j++ {
				if parts[j] == "site-packages" && j-i <= 3 {
					n = j - i + 1
				}
			}
		default:
			continue
		}
		return strings.Join(parts[:min(i+n+1, len(parts))], "/"), true
	}
	return "", false
}
