package policy

// corpusCase is one policy of the corpus that the reader and the JSON Schema
// judge alike.
type corpusCase struct {
	name string
	doc  string   // after "version: 1\n", unless whole is set
	want []string // the problems, without the file's name; none: a good policy
	// only marks what a JSON Schema cannot say, because it sees values, not
	// the file, and no sizes in words: the schema takes the document.
	only bool
	// whole is a document without the version line in front.
	whole bool
}

// full names every field once.
const full = `agent:
  engine: docker
  runtime: runsc
  image: {kind: image, ref: "busybox:1.36"}
  command: [sh, -c, "echo hi"]
  env: {LANG: C.UTF-8, N: "010"}
  env_pass: [TERM]
  limits: {memory: 512MiB, pids: 100, cpus: 1.5, open_files: 1024}
  output: 10MiB
  timeout: 1h30m
  grace: 5s
  mounts:
    - {source: /opt/tools, target: /opt/tools, writable: true}
    - {source: /opt/data, target: /data}
checks:
  - name: unit
    argv: [python3, /check/run.py]
    image: {kind: rootfs, ref: /srv/check}
    dir: sub/dir
    expect: 3
    timeout: 90s
    output: 1MiB
    limits: {memory: 1GiB}
    files: [{from: /home/me/conftest.py, to: tests/conftest.py}]
    form: two-process
  - {name: lint, argv: [lint]}
stage: {exclude: ["**/.env", node_modules]}
protected: [".github/workflows/*", 'app/\[id\]/page.tsx']
classes: {review: fail, tree: list}
audit: {max_entries: 10, max_file_size: 1MiB, max_total_size: 2GiB, timeout: 5m}
allow: [runtime-floor, one-identity]
observer: {chain: allow}
packages: {registry: "https://registry.example.test/npm/", allow: ["@me/*", left-pad], deny: ["evil*"]}
egress: {door: open, allow: ["*.example.test:443", "10.0.0.5:8080"], deny: ["bad.example.test:443"]}
services:
  - {name: model, preset: openai, secret: {keyring: model}}
  - name: other
    base: http://other.example.test:8000/api
    auth: {kind: header, name: X-Token, prefix: "Token "}
    secret: {file: /home/me/token}
    methods: [POST]
    paths: [/v2/, /v3/x/]
ports: {proxy: 8080, npm: 8081, services: 8082}
`

// corpus holds good documents and one for each way to be wrong.
func corpus() []corpusCase {
	return append(append(goodCases(), valueCases()...), yamlCases()...)
}

func goodCases() []corpusCase {
	return []corpusCase{
		{name: "smallest"},
		{name: "full", doc: full},
		{name: "template", whole: true, doc: template},
		{name: "empty sections", doc: "agent: {}\nchecks: []\nstage: {}\nclasses: {}\naudit: {}\nallow: []\nobserver: {}\npackages: {}\negress: {}\nservices: []\nports: {}\n"},
		{name: "document start and end", whole: true, doc: "---\nversion: 1\n...\n"},
		{name: "strings in every style", doc: "agent:\n  command: [plain, 'single', \"dou\\tble\", \"010\", \"yes\"]\n  env:\n    A: |\n      text\n    B: >-\n      folded\n      text\n"},
		{name: "least values", doc: "agent: {limits: {memory: 16MiB, pids: 16, cpus: 0.01, open_files: 64}, output: 1KiB, timeout: 1s, grace: 1s}\n"},
		{name: "most values", doc: "agent: {limits: {memory: 4TiB, pids: 4000000, cpus: 1024, open_files: 1048576}, output: 64GiB, timeout: 168h, grace: 10m}\n"},
		{name: "json", whole: true, doc: `{"version": 1, "allow": ["no-limits", "shared-network"]}`},
		{name: "globs", doc: `protected: ["*", "**", a/**/b, "**/a*b*c", "\\*x", "\\[a\\]", ".git", "..a", "a..b"]` + "\n"},
		{name: "inner dots in paths", doc: "checks: [{name: a, argv: [a], dir: ..a/.b, files: [{from: /..a/b., to: .c}]}]\n"},
	}
}

func check(fields string) string {
	return "checks: [{name: a, argv: [a], " + fields + "}]\n"
}

func valueCases() []corpusCase {
	return []corpusCase{
		{name: "no version", whole: true, doc: "agent: {}\n", want: []string{"1: version: is missing"}},
		{name: "version 2", whole: true, doc: "version: 2\n", want: []string{"1: version: 2 is not from 1 to 1"}},
		{name: "version as a string", whole: true, doc: "version: \"1\"\n", want: []string{`1: version: "1" is not a whole number without sign`}},
		{name: "unknown field", doc: "chekcs: []\n", want: []string{`2: unknown field "chekcs"; known here: version, agent, checks, stage, protected, classes, audit, allow, observer, packages, egress, services, ports`}},
		{name: "unknown nested field", doc: "stage:\n  exclude: []\n  include: []\n", want: []string{`4: stage: unknown field "include"; known here: exclude`}},
		{name: "a class that cannot be weakened", doc: "classes: {trap: list}\n", want: []string{`2: classes: unknown field "trap"; known here: review, tree`}},
		{name: "several problems at once", doc: "agent: {engine: podman}\nchecks:\n  - name: A\n    timeout: ten\n", want: []string{
			`2: agent.engine: "podman" is not one of: local, docker, containerd, kubernetes`,
			`4: checks[0].name: "A" is not a check's name: lower-case letters, digits and inner dashes, at most 32`,
			`4: checks[0].argv: is missing`,
			`5: checks[0].timeout: "ten" is not a duration like 90s, 10m or 1h30m`,
		}},
		{name: "word in another case", doc: "classes: {review: List}\n", want: []string{`2: classes.review: "List" is not one of: fail, list`}},
		{name: "runtime", doc: "agent: {runtime: crun}\n", want: []string{`2: agent.runtime: "crun" is not one of: runc, runsc`}},
		{name: "mapping for a list", doc: "checks: {}\n", want: []string{"2: checks: is a mapping; a list is needed"}},
		{name: "list for a mapping", doc: "agent: []\n", want: []string{"2: agent: is a list; a mapping is needed"}},
		{name: "string for a list", doc: "protected: a\n", want: []string{`2: protected: is "a"; a list is needed`}},
		{name: "empty field", doc: "checks:\n", want: []string{"2: checks: is empty; a list is needed"}},
		{name: "empty string field", doc: "agent: {timeout: }\n", want: []string{"2: agent.timeout: is empty; a string is needed"}},
		{name: "list of lists", doc: "protected: [[a]]\n", want: []string{"2: protected[0]: is a list; a string is needed"}},
		{name: "number for a string", doc: check("dir: 12"), want: []string{"2: checks[0].dir: is 12, which not every YAML reader takes for a string; write it in quotes"}},
		{name: "boolean for a string", doc: "agent: {env: {A: true}}\n", want: []string{"2: agent.env.A: is true, which not every YAML reader takes for a string; write it in quotes"}},

		{name: "size without unit", doc: "agent: {output: 512}\n", want: []string{"2: agent.output: is 512, which not every YAML reader takes for a string; write it in quotes"}},
		{name: "size with another unit", doc: "agent: {output: 2GB}\n", want: []string{`2: agent.output: "2GB" is not a size like 64MiB (units: B, KiB, MiB, GiB, TiB)`}},
		{name: "size with a fraction", doc: "agent: {output: 1.5GiB}\n", want: []string{`2: agent.output: "1.5GiB" is not a size like 64MiB (units: B, KiB, MiB, GiB, TiB)`}},
		{name: "size zero", doc: "agent: {output: 0B}\n", want: []string{`2: agent.output: "0B" is not a size like 64MiB (units: B, KiB, MiB, GiB, TiB)`}},
		{name: "size too small", only: true, doc: "agent: {output: 1023B}\n", want: []string{`2: agent.output: "1023B" is not from 1KiB to 64GiB`}},
		{name: "size too large", only: true, doc: "agent: {limits: {memory: 5TiB}}\n", want: []string{`2: agent.limits.memory: "5TiB" is not from 16MiB to 4TiB`}},
		{name: "duration without unit", doc: "agent: {timeout: \"10\"}\n", want: []string{`2: agent.timeout: "10" is not a duration like 90s, 10m or 1h30m`}},
		{name: "negative duration", doc: "agent: {timeout: -1s}\n", want: []string{`2: agent.timeout: "-1s" is not a duration like 90s, 10m or 1h30m`}},
		{name: "duration in days", doc: "agent: {timeout: 1d}\n", want: []string{`2: agent.timeout: "1d" is not a duration like 90s, 10m or 1h30m`}},
		{name: "duration zero", only: true, doc: "agent: {timeout: 0s}\n", want: []string{`2: agent.timeout: "0s" is not from 1s to 168h`}},
		{name: "duration too long", only: true, doc: "agent: {grace: 10m1s}\n", want: []string{`2: agent.grace: "10m1s" is not from 1s to 10m`}},
		{name: "too few pids", doc: "agent: {limits: {pids: 15}}\n", want: []string{"2: agent.limits.pids: 15 is not from 16 to 4000000"}},
		{name: "no cores", doc: "agent: {limits: {cpus: 0}}\n", want: []string{"2: agent.limits.cpus: 0 is not from 0.01 to 1024"}},
		{name: "cores as a string", doc: "agent: {limits: {cpus: \"2\"}}\n", want: []string{`2: agent.limits.cpus: "2" is not a number of cores like 2 or 0.5`}},
		{name: "exit code", doc: check("expect: 256"), want: []string{"2: checks[0].expect: 256 is not from 0 to 255"}},
		{name: "negative exit code", doc: check("expect: -1"), want: []string{`2: checks[0].expect: "-1" is not a whole number without sign`}},

		{name: "image without kind", doc: "agent: {image: {ref: /srv}}\n", want: []string{"2: agent.image.kind: is missing"}},
		{name: "host image with ref", doc: "agent: {image: {kind: host, ref: /}}\n", want: []string{"2: agent.image.ref: has no meaning for kind host"}},
		{name: "rootfs without ref", doc: "agent: {image: {kind: rootfs}}\n", want: []string{"2: agent.image.ref: is missing; kind rootfs needs it"}},
		{name: "relative rootfs", doc: "agent: {image: {kind: rootfs, ref: srv}}\n", want: []string{`2: agent.image.ref: "srv" is not an absolute path`}},
		{name: "image reference like an option", doc: "agent: {image: {kind: image, ref: --privileged}}\n", want: []string{`2: agent.image.ref: "--privileged" is not an image reference`}},
		{name: "empty command", doc: "agent: {command: []}\n", want: []string{"2: agent.command: holds 0 items, at least 1 are needed"}},
		{name: "command without program", only: true, doc: "agent: {command: [\"\", a]}\n", want: []string{"2: agent.command[0]: is empty; the program's name or path is needed"}},
		{name: "variable's name", doc: "agent: {env: {A-B: x}}\n", want: []string{`2: agent.env.A-B: "A-B" is not a variable's name`}},
		{name: "proctor's own variable", doc: "agent: {env: {PROCTOR_X: x}}\n", want: []string{`2: agent.env.PROCTOR_X: "PROCTOR_X" is reserved: names that start with PROCTOR_ are proctor's own`}},
		{name: "passed variable's name", doc: "agent: {env_pass: [A=B]}\n", want: []string{`2: agent.env_pass[0]: "A=B" is not a variable's name`}},
		{name: "variable passed twice", doc: "agent: {env_pass: [A, A]}\n", want: []string{`2: agent.env_pass: "A" is given twice`}},
		{name: "variable set and passed", only: true, doc: "agent:\n  env: {A: x}\n  env_pass: [A]\n", want: []string{`4: agent.env_pass: "A" is set in env too`}},
		{name: "waiver", doc: "allow: [everything]\n", want: []string{`2: allow[0]: "everything" is not one of: runtime-floor, one-identity, no-limits, shared-network`}},
		{name: "waiver twice", doc: "allow: [no-limits, no-limits]\n", want: []string{`2: allow: "no-limits" is given twice`}},
		{name: "observer", doc: "observer: {chain: \"yes\"}\n", want: []string{`2: observer.chain: "yes" is not one of: refuse, allow`}},

		{name: "check without name", doc: "checks: [{argv: [a]}]\n", want: []string{"2: checks[0].name: is missing"}},
		{name: "two checks of one name", only: true, doc: "checks: [{name: a, argv: [a]}, {name: a, argv: [b]}]\n", want: []string{`2: checks[1].name: "a" names another check too`}},
		{name: "check's form", doc: check("form: three-process"), want: []string{`2: checks[0].form: "three-process" is not one of: one-process, two-process`}},
		{name: "absolute dir", doc: check("dir: /tmp"), want: []string{`2: checks[0].dir: "/tmp" is not a path relative to the product`}},
		{name: "dir leaves the product", only: true, doc: check("dir: ../x"), want: []string{`2: checks[0].dir: "../x" leaves the product`}},
		{name: "dir through a parent", only: true, doc: check("dir: a/../../x"), want: []string{`2: checks[0].dir: "a/../../x" is not a clean path; write "../x"`}},
		{name: "file over the product's root", only: true, doc: check("files: [{from: /a, to: .}]"), want: []string{`2: checks[0].files[0].to: "." is the product itself; a file's place is needed`}},
		{name: "file from a relative path", doc: check("files: [{from: a, to: b}]"), want: []string{`2: checks[0].files[0].from: "a" is not an absolute path`}},
		{name: "files over each other", only: true, doc: check("files: [{from: /a, to: b}, {from: /c, to: b/c}]"), want: []string{`2: checks[0].files[1].to: "b/c" is, holds or lies under another file's place`}},

		{name: "mount source with a double slash", doc: "agent: {mounts: [{source: //a, target: /b}]}\n", want: []string{`2: agent.mounts[0].source: "//a" is not a clean path; write "/a"`}},
		{name: "mount source through a parent", only: true, doc: "agent: {mounts: [{source: /a/../b, target: /b}]}\n", want: []string{`2: agent.mounts[0].source: "/a/../b" is not a clean path; write "/b"`}},
		{name: "mount without target", doc: "agent: {mounts: [{source: /a}]}\n", want: []string{"2: agent.mounts[0].target: is missing"}},
		{name: "mount writable by a word", doc: "agent: {mounts: [{source: /a, target: /a, writable: \"true\"}]}\n", want: []string{`2: agent.mounts[0].writable: "true" is not true or false`}},
		{name: "mount on the root", only: true, doc: "agent: {mounts: [{source: /a, target: /}]}\n", want: []string{`2: agent.mounts[0].target: "/" is the container's root`}},
		{name: "mount on proctor's own place", only: true, doc: "agent: {mounts: [{source: /a, target: /run/proctor}]}\n", want: []string{`2: agent.mounts[0].target: "/run/proctor" is, holds or lies under /run, which is proctor's to fill`}},
		{name: "mount over proctor's own place", only: true, doc: "agent: {mounts: [{source: /a, target: /var}]}\n", want: []string{`2: agent.mounts[0].target: "/var" is, holds or lies under /var/run, which is proctor's to fill`}},
		{name: "mounts over each other", only: true, doc: "agent: {mounts: [{source: /a, target: /a}, {source: /b, target: /a/b}]}\n", want: []string{`2: agent.mounts[1].target: "/a/b" is, holds or lies under another mount's target`}},

		{name: "absolute pattern", doc: "protected: [/a]\n", want: []string{`2: protected[0]: "/a" is not a pattern relative to the product`}},
		{name: "empty pattern", doc: "protected: [\"\"]\n", want: []string{`2: protected[0]: "" is not a pattern relative to the product`}},
		{name: "pattern with a slash at the end", only: true, doc: "protected: [a/]\n", want: []string{`2: protected[0]: "a/" ends with a slash; leave it out, a directory's pattern covers what is in it`}},
		{name: "pattern through a parent", only: true, doc: "protected: [a/../b]\n", want: []string{`2: protected[0]: "a/../b" holds a component that is empty, "." or ".."`}},
		{name: "pattern with a class", doc: "protected: [\"[ab]*\"]\n", want: []string{`2: protected[0]: "[ab]*" holds [, which means nothing here; write \[ for the character`}},
		{name: "pattern with a question mark", doc: "protected: [\"a?\"]\n", want: []string{`2: protected[0]: "a?" holds ?, which means nothing here; write \? for the character`}},
		{name: "negated pattern", doc: "protected: [\"!a\"]\n", want: []string{`2: protected[0]: "!a" holds !, which means nothing here; write \! for the character`}},
		{name: "pattern with a stray backslash", doc: `protected: ['a\b']` + "\n", want: []string{"2: protected[0]: \"a\\\\b\" holds a backslash before none of *?[]{}!\\"}},
		{name: "pattern with half a component", only: true, doc: "protected: [\"a**\"]\n", want: []string{`2: protected[0]: "a**" holds ** beside other characters; it stands alone between slashes`}},

		{name: "host without port", doc: "egress: {door: open, allow: [example.test]}\n", want: []string{`2: egress.allow[0]: "example.test" names no port; write HOST:PORT`}},
		{name: "host in an odd spelling", only: true, doc: "egress: {door: open, allow: [\"127.1:80\"]}\n", want: []string{`2: egress.allow[0]: "127.1:80" is an odd spelling of an IPv4 address; four decimal numbers are needed`}},
		{name: "every host", doc: "egress: {door: open, allow: [\"*:443\"]}\n", want: []string{`2: egress.allow[0]: "*:443" is not a host's name`}},
		{name: "hosts behind a closed door", only: true, doc: "egress: {allow: [\"a.example.test:443\"]}\n", want: []string{"2: egress.allow: lists hosts, but the door is closed; write door: open"}},
		{name: "door ajar", doc: "egress: {door: ajar}\n", want: []string{`2: egress.door: "ajar" is not one of: closed, open`}},
		{name: "two doors at one port", only: true, doc: "ports: {proxy: 4873}\n", want: []string{"2: ports: two doors have one port"}},
		{name: "port of the system", doc: "ports: {proxy: 80}\n", want: []string{"2: ports.proxy: 80 is not from 1024 to 65535"}},
		{name: "service without secret", doc: "services: [{name: a, preset: openai}]\n", want: []string{"2: services[0].secret: is missing"}},
		{name: "service with two secrets", doc: "services: [{name: a, preset: openai, secret: {file: /a, keyring: b}}]\n", want: []string{"2: services[0].secret: needs exactly one of file and keyring"}},
		{name: "secret in the policy", doc: "services: [{name: a, preset: openai, secret: hunter22}]\n", want: []string{`2: services[0].secret: is "hunter22"; a mapping is needed`}},
		{name: "service without base", only: true, doc: "services: [{name: a, secret: {keyring: b}}]\n", want: []string{"2: services[0]: base and auth are needed where there is no preset"}},
		{name: "service's base with a slash at its end", doc: "services: [{name: a, preset: openai, base: \"https://a.example.test/\", secret: {keyring: b}}]\n", want: []string{`2: services[0].base: "https://a.example.test/" is not an address whose path is clean and ends without a slash`}},
		{name: "secret as a header that frames", only: true, doc: "services: [{name: a, preset: openai, auth: {kind: header, name: Host}, secret: {keyring: b}}]\n", want: []string{`2: services[0].auth.name: "Host" says how a request is carried, and cannot hold a secret`}},
		{name: "service's path without a slash at its end", doc: "services: [{name: a, preset: openai, paths: [/v1], secret: {keyring: b}}]\n", want: []string{`2: services[0].paths[0]: "/v1" is not a clean path that begins and ends with a slash`}},
		{name: "service's path through a parent", only: true, doc: "services: [{name: a, preset: openai, paths: [/v1/../], secret: {keyring: b}}]\n", want: []string{`2: services[0].paths[0]: "/v1/../" is not a clean path that begins and ends with a slash`}},
		{name: "two services of one name", only: true, doc: "services: [{name: a, preset: openai, secret: {keyring: b}}, {name: a, preset: gemini, secret: {keyring: b}}]\n", want: []string{`2: services[1].name: "a" names another service too`}},
		{name: "registry of another scheme", doc: "packages: {registry: \"file:///a\"}\n", want: []string{`2: packages.registry: "file:///a" is not an http or https URL`}},
		{name: "registry without host", doc: "packages: {registry: \"https:///a\"}\n", want: []string{`2: packages.registry: "https:///a" names no host`}},
		{name: "registry with credentials", doc: "packages: {registry: \"https://me:pw@registry.example.test/\"}\n", want: []string{`2: packages.registry: "https://me:pw@registry.example.test/" holds credentials, which do not belong into a policy`}},
		{name: "registry with a query", doc: "packages: {registry: \"https://registry.example.test/?a\"}\n", want: []string{`2: packages.registry: "https://registry.example.test/?a" holds a query or a fragment`}},
		{name: "name patterns", doc: "packages: {deny: [\"*\", a, \"@s/*\", \"@s*\", \"*-x\", \"@*\", JSONStream]}\n"},
		{name: "a denial with a version", doc: "packages: {deny: [left-pad@1.3.0]}\n", want: []string{`2: packages.deny[0]: "left-pad@1.3.0" names a version; here are names only, and proctor trust deny-package denies one version`}},
		{name: "a denial of a scope's package with a version", doc: "packages: {deny: [\"@s/a@1.0.0\"]}\n", want: []string{`2: packages.deny[0]: "@s/a@1.0.0" names a version; here are names only, and proctor trust deny-package denies one version`}},
		{name: "an allowance with a range", doc: "packages: {allow: [\"*@^1\"]}\n", want: []string{`2: packages.allow[0]: "*@^1" names a version; here are names only, and proctor trust deny-package denies one version`}},
		{name: "a denial that never matches", doc: "packages: {deny: [\"@scope\"]}\n", want: []string{`2: packages.deny[0]: "@scope" is not a package's name, or a pattern that one could match`}},
		{name: "a denial without a scope's sign", doc: "packages: {deny: [user/repo]}\n", want: []string{`2: packages.deny[0]: "user/repo" is not a package's name, or a pattern that one could match`}},
		{name: "an empty denial", doc: "packages: {deny: [\"\"]}\n", want: []string{`2: packages.deny[0]: "" is not a package's name, or a pattern that one could match`}},
		{name: "a denial of a hidden scope", doc: "packages: {deny: [\"@.s*\"]}\n", want: []string{`2: packages.deny[0]: "@.s*" is not a package's name, or a pattern that one could match`}},
		{name: "an alias as a denial", doc: "packages: {deny: [\"npm:a\"]}\n", want: []string{`2: packages.deny[0]: "npm:a" is not a package's name, or a pattern that one could match`}},
	}
}

func yamlCases() []corpusCase {
	const quote = "which not every YAML reader takes for a string; write it in quotes"
	return []corpusCase{
		{name: "duplicate key", only: true, doc: "allow: []\nallow: [no-limits]\n", want: []string{"3: allow: is given twice, first in line 2"}},
		{name: "duplicate variable", only: true, doc: "agent: {env: {A: x, A: z}}\n", want: []string{"2: agent.env.A: is given twice, first in line 2"}},
		{name: "alias", only: true, doc: "protected: [&a x, *a]\n", want: []string{
			"2: protected[0]: anchors (&a) are not read; write the value out",
			"2: protected[1]: aliases (*a) are not read; write the value out",
		}},
		{name: "anchor on a mapping", only: true, doc: "agent: &a\n  timeout: 1h\n", want: []string{"2: agent: anchors (&a) are not read; write the value out"}},
		{name: "merge key", only: true, doc: "agent: {<<: {timeout: 1h}}\n", want: []string{"2: agent: merge keys (<<) are not read; write the fields out"}},
		{name: "merge key in quotes", doc: "agent: {\"<<\": {timeout: 1h}}\n", want: []string{"2: agent: merge keys (<<) are not read; write the fields out"}},
		{name: "tag", only: true, doc: "agent: {timeout: !!str 1h}\n", want: []string{"2: agent.timeout: tags (!!str) are not read"}},
		{name: "own tag", only: true, doc: "agent: !x {}\n", want: []string{"2: agent: tags (!x) are not read"}},
		{name: "tag on a key", only: true, doc: "agent: {!!str timeout: 1h}\n", want: []string{"2: agent: tags (!!str) are not read"}},
		{name: "mapping as a key", only: true, doc: "agent: {? {a: b} : c}\n", want: []string{"2: agent: a key must be a name"}},
		{name: "yes", only: true, doc: "agent: {command: [yes]}\n", want: []string{"2: agent.command[0]: is yes, " + quote}},
		{name: "Off", only: true, doc: "agent: {command: [Off]}\n", want: []string{"2: agent.command[0]: is Off, " + quote}},
		{name: "n", only: true, doc: "agent: {env: {A: n}}\n", want: []string{"2: agent.env.A: is n, " + quote}},
		{name: "yes for a boolean", doc: "agent: {mounts: [{source: /a, target: /a, writable: yes}]}\n", want: []string{`2: agent.mounts[0].writable: "yes" is not true or false`}},
		{name: "octal for a string", doc: "agent: {env: {A: 010}}\n", want: []string{"2: agent.env.A: is 010, " + quote}},
		{name: "octal for a number", only: true, doc: check("expect: 010"), want: []string{`2: checks[0].expect: "010" is not a whole number without sign`}},
		{name: "hexadecimal", only: true, doc: check("expect: 0x10"), want: []string{`2: checks[0].expect: "0x10" is not a whole number without sign`}},
		{name: "underscore", only: true, doc: "audit: {max_entries: 1_000}\n", want: []string{`2: audit.max_entries: "1_000" is not a whole number without sign`}},
		{name: "integer as a float", only: true, doc: check("expect: 1.0"), want: []string{`2: checks[0].expect: "1.0" is not a whole number without sign`}},
		{name: "infinity", doc: "agent: {limits: {cpus: .inf}}\n", want: []string{`2: agent.limits.cpus: ".inf" is not a number of cores like 2 or 0.5`}},
		{name: "base 60", only: true, doc: "agent: {env: {A: 1:30}}\n", want: []string{"2: agent.env.A: is 1:30, " + quote}},
		{name: "date", doc: "agent: {env: {A: 2026-11-30}}\n", want: []string{"2: agent.env.A: is 2026-11-30, " + quote}},
		{name: "null", doc: "agent: {env: {A: ~}}\n", want: []string{"2: agent.env.A: is ~, " + quote}},
		{name: "NUL byte", only: true, doc: "agent: {env: {A: \"a\\0b\"}}\n", want: []string{"2: agent.env.A: holds a NUL byte or invalid UTF-8"}},
		{name: "two documents", only: true, doc: "---\nversion: 1\n", want: []string{"2: a second document starts here; one is read"}},
		{name: "syntax", only: true, doc: "agent: [\n", want: []string{"2: did not find expected node content"}},
		{name: "empty", whole: true, doc: "", want: []string{"is empty; the smallest policy is: version: 1"}},
		{name: "comment only", whole: true, doc: "# nothing\n", want: []string{"is empty; the smallest policy is: version: 1"}},
		{name: "not UTF-8", only: true, doc: "# \xff\n", want: []string{"is not UTF-8"}},
		{name: "byte order mark", only: true, whole: true, doc: "\ufeffversion: 1\n", want: []string{"holds a byte order mark"}},
		{name: "a list", whole: true, doc: "- version: 1\n", want: []string{"1: is a list; a mapping is needed"}},
	}
}
