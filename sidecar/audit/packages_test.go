package audit_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/packages"
)

const registry = "https://registry.example"

// trusted are approved packages, and what their archives hold.
type trusted map[packages.Identity]map[string]string

func (trusted) Registry() string { return registry }

func (t trusted) Decide(id packages.Identity) packages.Decision {
	if strings.HasPrefix(id.Name, "denied") {
		return packages.Decision{Reason: packages.DeniedByRecord}
	}
	if _, ok := t[id]; ok {
		return packages.Decision{Allowed: true, Reason: packages.ApprovedRecord}
	}
	return packages.Decision{Reason: packages.NotApproved}
}

func (t trusted) Archive(id packages.Identity) (*packages.Archive, bool) {
	files, ok := t[id]
	if !ok || files == nil {
		return nil, false
	}
	a := &packages.Archive{Files: map[string][32]byte{}, Bins: map[string]map[string]string{"": {}, "node_modules/inner": {"in": "i.js"}}}
	for name, content := range files {
		if bin, ok := strings.CutPrefix(name, "bin:"); ok {
			a.Bins[""][bin] = content
			continue
		}
		a.Files[name] = sha256.Sum256([]byte(content))
	}
	return a, true
}

// unapproved has the archives of packages that nobody approved.
type unapproved struct{ trusted }

func (unapproved) Decide(packages.Identity) packages.Decision {
	return packages.Decision{Reason: packages.NotApproved}
}

func sri(of string) string {
	return "sha512-" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(of, 64))[:64])
}

func pkg(name, version string) packages.Identity {
	return packages.Identity{Registry: registry, Name: name, Version: version, Integrity: sri(name[len(name)-1:])}
}

// lockOf writes a lock file as npm does.
func lockOf(entries map[string]any) string {
	all := map[string]any{"": map[string]any{"name": "p"}}
	maps.Copy(all, entries)
	b, err := json.MarshalIndent(map[string]any{"name": "p", "lockfileVersion": 3, "packages": all}, "", "  ")
	if err != nil {
		panic(err)
	}
	return string(b)
}

func entryOf(id packages.Identity) map[string]any {
	name := id.Name[strings.LastIndexByte(id.Name, '/')+1:]
	return map[string]any{"version": id.Version, "integrity": id.Integrity, "resolved": id.Registry + "/" + id.Name + "/-/" + name + "-" + id.Version + ".tgz"}
}

func installed(ids ...packages.Identity) map[string]any {
	all := map[string]any{}
	for _, id := range ids {
		all["node_modules/"+id.Name] = entryOf(id)
	}
	return all
}

func details(r *audit.Result) []string {
	var all []string
	for _, f := range r.Findings {
		all = append(all, fmt.Sprintf("%s %s %s: %s", f.Kind, f.Path, f.Status, f.Detail))
	}
	return all
}

func wantFindings(t *testing.T, r *audit.Result, want ...string) {
	t.Helper()
	if got := details(r); !slices.Equal(got, want) {
		t.Errorf("findings\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestLockFilePackages judges what a lock file names since the baseline.
func TestLockFilePackages(t *testing.T) {
	old, fresh, other := pkg("old", "1.0.0"), pkg("fresh", "1.0.0"), pkg("@s/other", "2.0.0")
	files := baseProduct()
	files["package-lock.json"] = lockOf(installed(old))
	s := newSession(t, files)
	approve := trusted{fresh: nil, other: nil}
	wantFindings(t, s.judge(audit.Input{Packages: trusted{}})) // what was there is not new

	s.write(map[string]string{"package-lock.json": lockOf(installed(old, fresh, other))})
	r := s.judge(audit.Input{Packages: trusted{}})
	wantFindings(t, r, "package-unapproved package-lock.json new: @s/other@2.0.0", "package-unapproved package-lock.json new: fresh@1.0.0")
	f := r.Findings[1]
	if f.Class != audit.ClassTree || f.Package == nil || f.Package.Name != "fresh" || f.Package.Integrity != fresh.Integrity || f.Package.Reason != packages.NotApproved || f.Approvable {
		t.Errorf("%+v %+v", f, f.Package)
	}
	if line := strings.Split(files["package-lock.json"], "\n"); f.Package.Line == 0 || len(line) == 0 {
		t.Errorf("line %d", f.Package.Line)
	}
	text := strings.Split(lockOf(installed(old, fresh, other)), "\n")
	if !strings.Contains(text[f.Package.Line-1], `"node_modules/fresh"`) {
		t.Errorf("line %d is %q", f.Package.Line, text[f.Package.Line-1])
	}
	wantFindings(t, s.judge(audit.Input{}), "package-foreign package-lock.json new: node_modules/@s/other no package registry is configured",
		"package-foreign package-lock.json new: node_modules/fresh no package registry is configured")
	r = s.judge(audit.Input{Packages: approve})
	wantFindings(t, r)
	if want := []packages.Identity{other, fresh}; !slices.Equal(r.Packages, want) {
		t.Errorf("relies on %v", r.Packages)
	}

	for name, change := range map[string]func(map[string]any){
		"another version":   func(e map[string]any) { e["version"] = "1.0.1" },
		"another integrity": func(e map[string]any) { e["integrity"] = sri("x") },
	} {
		entry := entryOf(fresh)
		change(entry)
		s.write(map[string]string{"package-lock.json": lockOf(map[string]any{"node_modules/fresh": entry})})
		if r := s.judge(audit.Input{Packages: approve}); len(r.Findings) != 1 || r.Findings[0].Kind != "package-unapproved" {
			t.Errorf("%s: %v", name, details(r))
		}
	}
	for name, change := range map[string]func(map[string]any){
		"another registry": func(e map[string]any) { e["resolved"] = "https://registry.example.evil/fresh/-/fresh-1.0.0.tgz" },
		"git":              func(e map[string]any) { e["resolved"] = "git+ssh://git@host.example/u/r.git#1" },
		"a file":           func(e map[string]any) { e["resolved"] = "file:evil.tgz" },
		"a link":           func(e map[string]any) { e["link"], e["resolved"] = true, "evil" },
		"no integrity":     func(e map[string]any) { delete(e, "integrity") },
		"sha1":             func(e map[string]any) { e["integrity"] = "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=" },
		"bundled by none":  func(e map[string]any) { e["inBundle"] = true; delete(e, "integrity"); delete(e, "resolved") },
		"longer than told": func(e map[string]any) { e["resolved"] = registry + "/" + strings.Repeat("a", 2000) },
	} {
		entry := entryOf(fresh)
		change(entry)
		s.write(map[string]string{"package-lock.json": lockOf(map[string]any{"node_modules/fresh": entry})})
		if r := s.judge(audit.Input{Packages: approve}); len(r.Findings) != 1 || r.Findings[0].Kind != "package-foreign" {
			t.Errorf("%s: %v", name, details(r))
		}
	}

	// Elsewhere, the same package is no other; a denied one has its own kind.
	s.write(map[string]string{"package-lock.json": lockOf(map[string]any{"node_modules/x/node_modules/old": entryOf(old), "node_modules/denied": entryOf(pkg("denied", "1.0.0"))})})
	wantFindings(t, s.judge(audit.Input{Packages: approve}), "package-denied package-lock.json new: denied@1.0.0")
	// One finding a package, in how many places it may be.
	s.write(map[string]string{
		"package-lock.json":                    lockOf(map[string]any{"node_modules/evil": entryOf(pkg("evil", "1.0.0")), "node_modules/a/node_modules/evil": entryOf(pkg("evil", "1.0.0"))}),
		"sub/npm-shrinkwrap.json":              lockOf(installed(pkg("evil", "1.0.0"))),
		"sub/node_modules/.package-lock.json":  lockOf(installed(pkg("evil", "1.0.0"))),
		"sub/node_modules/d/package-lock.json": lockOf(installed(pkg("ignored", "1.0.0"))),
	})
	wantFindings(t, s.judge(audit.Input{Packages: approve}), "dependency sub/node_modules/d new: 2 paths", "package-unapproved package-lock.json new: evil@1.0.0, at 4 places")

	// What npm of version 6 reads counts, too.
	s.write(map[string]string{"package-lock.json": `{"lockfileVersion":2,"packages":{},"dependencies":{"evil":{"version":"1.0.0","integrity":"` + sri("l") + `"}}}`})
	must(t, os.RemoveAll(s.path("sub")))
	wantFindings(t, s.judge(audit.Input{Packages: approve}), "package-unapproved package-lock.json new: evil@1.0.0")
	// What is not a lock file cannot be judged.
	s.write(map[string]string{"package-lock.json": `{"lockfileVersion":3,"packages":{"node_modules/a":{},"node_modules/a":{}}}`})
	wantFindings(t, s.judge(audit.Input{Packages: approve}), "unparsed package-lock.json new: lock file")
	s.write(map[string]string{"package-lock.json": "->elsewhere.json", "elsewhere.json": lockOf(installed(pkg("evil", "1.0.0")))})
	wantFindings(t, s.judge(audit.Input{Packages: approve}), "link package-lock.json changed: a link in a lock file's place")
	must(t, os.Remove(s.path("package-lock.json")))
	s.write(map[string]string{"Package-Lock.json": lockOf(installed(pkg("evil", "1.0.0")))})
	wantFindings(t, s.judge(audit.Input{Packages: approve}), "package-unapproved Package-Lock.json new: evil@1.0.0")
	wantReviews := s.judge(audit.Input{Packages: approve, Tree: audit.List})
	if len(wantReviews.Findings) != 0 || len(wantReviews.Reviews) == 0 || wantReviews.Reviews[len(wantReviews.Reviews)-1].Package == nil {
		t.Errorf("listed: %+v", wantReviews.Reviews)
	}
}

// TestBundledPackages: npm fetches a version without any integrity where a lock
// file says that it is bundled and the archive above does not hold it, or where
// nothing there needs it; such an entry is a finding.
func TestBundledPackages(t *testing.T) {
	good, plain := pkg("good", "1.0.0"), pkg("plain", "1.0.0")
	store := trusted{good: {"package.json": "{}", "node_modules/inner/package.json": "{}"}, plain: {"package.json": "{}"}}
	needs := func(id packages.Identity, names ...string) map[string]any {
		e, all := entryOf(id), map[string]string{}
		for _, n := range names {
			all[n] = "1.0.0"
		}
		e["dependencies"] = all
		return e
	}
	claim := map[string]any{"version": "1.0.0", "inBundle": true}
	const foreign, nowhere = "package-foreign package-lock.json new: ", " the registry does not say what the package's bytes are"
	for name, tt := range map[string]struct {
		packages map[string]any
		store    trusted
		want     []string
	}{
		"held and needed": {map[string]any{"node_modules/good": needs(good, "inner"), "node_modules/good/node_modules/inner": claim}, store, nil},
		"held, by an archive that is not at hand": {
			map[string]any{"node_modules/good": needs(good, "inner"), "node_modules/good/node_modules/inner": claim},
			trusted{good: nil},
			[]string{foreign + "node_modules/good/node_modules/inner" + nowhere},
		},
		"not held": {
			map[string]any{"node_modules/good": needs(good, "evil"), "node_modules/good/node_modules/evil": claim},
			store,
			[]string{foreign + "node_modules/good/node_modules/evil" + nowhere},
		},
		"held, and needed by another only": {
			map[string]any{
				"node_modules/good": needs(good), "node_modules/good/node_modules/inner": claim,
				"node_modules/good/node_modules/plain": needs(plain, "inner"),
			},
			store,
			[]string{foreign + "node_modules/good/node_modules/inner" + nowhere},
		},
	} {
		s := newSession(t, baseProduct())
		s.write(map[string]string{"package-lock.json": lockOf(tt.packages)})
		if got := details(s.judge(audit.Input{Packages: tt.store})); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestLockFilePromises: npm links programs, and gives a package another name, as
// the lock file says, and does not ask the archive.
func TestLockFilePromises(t *testing.T) {
	tool := pkg("tool", "1.0.0")
	archive := map[string]string{"package.json": "{}", "cli.js": "", "other.js": "", "node_modules/inner/package.json": "{}", "node_modules/inner/i.js": "", "node_modules/inner/j.js": "", "bin:tool": "cli.js"}
	at, missing := trusted{tool: archive}, trusted{tool: nil}
	with := func(bin any) map[string]any {
		e := entryOf(tool)
		e["bin"] = bin
		return map[string]any{"node_modules/tool": e}
	}
	inner := func(bin any) map[string]any {
		all := with(map[string]string{"tool": "cli.js"})
		all["node_modules/tool"].(map[string]any)["dependencies"] = map[string]string{"inner": "1.0.0"}
		all["node_modules/tool/node_modules/inner"] = map[string]any{"version": "1.0.0", "inBundle": true, "bin": bin}
		return all
	}
	alias := entryOf(tool)
	alias["name"] = "tool"
	for name, tt := range map[string]struct {
		packages map[string]any
		store    trusted
		findings []string
		reviews  []string
	}{
		"as the package says":          {with(map[string]string{"tool": "./cli.js"}), at, nil, nil},
		"one text":                     {with("cli.js"), at, nil, nil},
		"a file that is not there":     {with(map[string]string{"x": "none.js"}), at, nil, nil},
		"another file":                 {with(map[string]string{"tool": "other.js"}), at, []string{"package-bin: program tool is not other.js in tool@1.0.0"}, nil},
		"another name":                 {with(map[string]string{"tool": "cli.js", "node": "cli.js"}), at, []string{"package-bin: program node is not cli.js in tool@1.0.0"}, nil},
		"a name with a path":           {with(map[string]string{"../x/node": "cli.js"}), at, []string{"package-bin: program node is not cli.js in tool@1.0.0"}, nil},
		"no programs at all":           {with(7), at, []string{"unparsed: lock file"}, nil},
		"its archive is not at hand":   {with(map[string]string{"tool": "other.js"}), missing, nil, []string{"package-bin: programs of tool@1.0.0 were not compared: its archive is not at hand"}},
		"a bundled one's, as it says":  {inner(map[string]string{"in": "i.js"}), at, nil, nil},
		"a bundled one's other file":   {inner(map[string]string{"in": "j.js"}), at, []string{"package-foreign: node_modules/tool/node_modules/inner the registry does not say what the package's bytes are"}, nil},
		"under another name":           {map[string]any{"node_modules/react": alias}, at, nil, []string{"package-alias: node_modules/react is tool@1.0.0"}},
		"under its own name, repeated": {map[string]any{"node_modules/tool": alias}, at, nil, nil},
	} {
		s := newSession(t, baseProduct())
		s.write(map[string]string{"package-lock.json": lockOf(tt.packages), "node_modules/.package-lock.json": lockOf(tt.packages)})
		r := s.judge(audit.Input{Packages: tt.store, Review: audit.List})
		var findings, reviews []string
		for _, f := range r.Findings {
			text := f.Kind + ": " + strings.TrimSuffix(f.Detail, ", at 2 places")
			if !slices.Contains(findings, text) {
				findings = append(findings, text)
			}
		}
		for _, f := range r.Reviews {
			reviews = append(reviews, f.Kind+": "+f.Detail)
		}
		if !slices.Equal(findings, tt.findings) || !slices.Equal(reviews, tt.reviews) {
			t.Errorf("%s: findings %q, want %q; reviews %q, want %q", name, findings, tt.findings, reviews, tt.reviews)
		}
	}
}

// TestOtherLockFiles: a lock file of another package manager decides what is
// installed, too, also by npm; it is a finding as a whole, by its content.
func TestOtherLockFiles(t *testing.T) {
	files := baseProduct()
	files["sub/yarn.lock"] = "# old"
	s := newSession(t, files)
	wantFindings(t, s.judge(audit.Input{}))
	must(t, os.Chmod(s.path("sub/yarn.lock"), 0o755))
	wantFindings(t, s.judge(audit.Input{}))
	s.write(map[string]string{"yarn.lock": "good@1.0.0:", "sub/yarn.lock": "# new", "pnpm-lock.yaml": "", "Bun.lock": "", "bun.lockb": ""})
	r := s.judge(audit.Input{Packages: trusted{}})
	wantFindings(t, r, "lock-file Bun.lock new: ", "lock-file bun.lockb new: ", "lock-file pnpm-lock.yaml new: ", "lock-file sub/yarn.lock changed: ", "lock-file yarn.lock new: ")
	for _, f := range r.Findings {
		if f.Class != audit.ClassTree || !f.Approvable || f.Approved {
			t.Errorf("%+v", f)
		}
	}
	r = s.judge(audit.Input{Approved: func(path string, sum [32]byte) bool {
		return path == "yarn.lock" && sum == sha256.Sum256([]byte("good@1.0.0:"))
	}})
	if f := r.Findings[4]; !f.Approved || r.Findings[3].Approved {
		t.Errorf("%+v", r.Findings)
	}
	if r := s.judge(audit.Input{Tree: audit.List}); len(r.Findings) != 0 || len(r.Reviews) != 5 {
		t.Errorf("%+v", r)
	}
	s.write(map[string]string{"node_modules/a/yarn.lock": "x"})
	if r := s.judge(audit.Input{}); len(r.Findings) != 7 || r.Findings[5].Kind != "dependency" || r.Findings[6].Kind != "dependency" {
		t.Errorf("a dependency's own is part of that: %v", details(r))
	}
}

// TestInstalledPackages compares a node_modules with approved archives.
func TestInstalledPackages(t *testing.T) {
	a, b, scoped := pkg("a", "1.0.0"), pkg("b", "1.0.0"), pkg("@s/c", "1.0.0")
	store := trusted{
		a:      {"index.js": "a", "lib/x.js": "x", "package.json": "{}", "node_modules/inner/i.js": "i", "node_modules/inner/package.json": "{}", "bin:tool": "lib/x.js"},
		b:      {"b.js": "b"},
		scoped: {"c.js": "c", "bin:c": "c.js"},
	}
	lock := installed(a, b, scoped)
	lock["node_modules/a/node_modules/b"] = entryOf(b)
	lock["node_modules/a"].(map[string]any)["bundleDependencies"] = []string{"inner"}
	lock["node_modules/a/node_modules/inner"] = map[string]any{"version": "1.0.0", "inBundle": true}
	good := map[string]string{
		"package-lock.json": lockOf(lock), "node_modules/.package-lock.json": lockOf(lock),
		"node_modules/a/index.js": "a", "node_modules/a/lib/x.js": "x", "node_modules/a/package.json": "{}",
		"node_modules/a/node_modules/inner/i.js": "i", "node_modules/a/node_modules/inner/package.json": "{}", "node_modules/a/node_modules/b/b.js": "b",
		"node_modules/b/b.js": "b", "node_modules/@s/c/c.js": "c",
		"node_modules/a/node_modules/.bin/in": "->../inner/i.js", "node_modules/.bin/tool": "->../a/lib/x.js", "node_modules/.bin/c": "->../@s/c/c.js",
	}
	s := newSession(t, baseProduct())
	s.write(good)
	r := s.judge(audit.Input{Packages: store})
	wantFindings(t, r)
	if want := []packages.Identity{scoped, a, b}; !slices.Equal(r.Packages, want) {
		t.Errorf("relies on %v", r.Packages)
	}
	wantFindings(t, s.judge(audit.Input{Packages: trusted{a: nil, b: nil, scoped: nil}}), "dependency node_modules/.bin new: 3 paths",
		"dependency node_modules/@s/c new: 2 paths", "dependency node_modules/a new: 13 paths", "dependency node_modules/b new: 2 paths",
		"package-foreign node_modules/.package-lock.json new: node_modules/a/node_modules/inner the registry does not say what the package's bytes are, at 2 places")

	tests := []struct {
		name    string
		change  map[string]string
		remove  string
		finding string
	}{
		{"a changed file", map[string]string{"node_modules/a/index.js": "evil"}, "", "dependency node_modules/a"},
		{"an added file", map[string]string{"node_modules/b/evil.js": ""}, "", "dependency node_modules/b"},
		{"a missing file", nil, "node_modules/a/lib/x.js", "dependency node_modules/a"},
		{"a changed file of a nested package", map[string]string{"node_modules/a/node_modules/b/b.js": "evil"}, "", "dependency node_modules/a"},
		{"a changed bundled file", map[string]string{"node_modules/a/node_modules/inner/i.js": "evil"}, "", "dependency node_modules/a"},
		{"a bundled package of another", map[string]string{"node_modules/b/node_modules/inner/i.js": "i"}, "", "dependency node_modules/b"},
		{"a package that no lock file names", map[string]string{"node_modules/evil/index.js": "x"}, "", "dependency node_modules/evil"},
		{"an approved package under another name", map[string]string{"node_modules/evil/b.js": "b"}, "", "dependency node_modules/evil"},
		{"a file beside the packages", map[string]string{"node_modules/index.js": "x"}, "", "dependency node_modules/index.js"},
		{"a file in a scope's place", map[string]string{"node_modules/@t": "x"}, "", "dependency node_modules/@t"},
		{"a link in a file's place", map[string]string{"node_modules/b/b.js": "->../a/index.js"}, "", "dependency node_modules/b"},
		{"a link whose target reads like the file", map[string]string{"node_modules/b/b.js": "->b"}, "", "dependency node_modules/b"},
		{"another program", map[string]string{"node_modules/.bin/node": "->../a/lib/x.js"}, "", "dependency node_modules/.bin"},
		{"a bundled program of another name", map[string]string{"node_modules/a/node_modules/.bin/node": "->../inner/i.js"}, "", "dependency node_modules/a"},
		{"a program of another file", map[string]string{"node_modules/.bin/tool": "->../a/index.js"}, "", "dependency node_modules/.bin"},
		{"a program that is a file", map[string]string{"node_modules/.bin/evil": "../a/lib/x.js"}, "", "dependency node_modules/.bin"},
		{"a hidden lock file of a package", map[string]string{"node_modules/b/node_modules/.package-lock.json": "{}"}, "", "dependency node_modules/b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSession(t, baseProduct())
			s.write(good)
			s.write(tt.change)
			if tt.remove != "" {
				must(t, os.Remove(s.path(tt.remove)))
			}
			r := s.judge(audit.Input{Packages: store})
			// The programs of a package that is not what it should be are none.
			var got []string
			for _, f := range r.Findings {
				if f.Path != "node_modules/.bin" || strings.HasSuffix(tt.finding, ".bin") {
					got = append(got, f.Kind+" "+f.Path)
				}
			}
			if len(got) != 1 || got[0] != tt.finding {
				t.Errorf("%v, want %s", details(r), tt.finding)
			}
		})
	}
	t.Run("modes are npm's", func(t *testing.T) {
		must(t, os.Chmod(s.path("node_modules/a/lib/x.js"), 0o755))
		wantFindings(t, s.judge(audit.Input{Packages: store}))
		must(t, os.Chmod(s.path("node_modules/a/lib/x.js"), 0o755|os.ModeSetuid))
		wantFindings(t, s.judge(audit.Input{Packages: store}), "setid node_modules/a/lib/x.js new: mode 4755")
	})
	t.Run("what was there before counts, too", func(t *testing.T) {
		files := baseProduct()
		maps.Copy(files, good)
		files["node_modules/a/lib/x.js"] = "before"
		s := newSession(t, files)
		s.write(map[string]string{"node_modules/a/lib/x.js": "x"})
		wantFindings(t, s.judge(audit.Input{Packages: store}))
	})
	t.Run("an archive without an approval", func(t *testing.T) {
		files := baseProduct()
		maps.Copy(files, good)
		s := newSession(t, files) // so that the lock files' entries are not new
		s.write(map[string]string{"node_modules/b/b.js": "changed", "node_modules/a/index.js": "a2"})
		wantFindings(t, s.judge(audit.Input{Packages: store}), "dependency node_modules/a changed: 1 paths", "dependency node_modules/b changed: 1 paths")
		wantFindings(t, s.judge(audit.Input{Packages: unapproved{trusted{
			a: {"index.js": "a2", "lib/x.js": "x", "package.json": "{}"}, b: {"b.js": "changed"},
		}}}), "dependency node_modules/a changed: 1 paths", "dependency node_modules/b changed: 1 paths")
	})
	t.Run("what was there before is compared, too", func(t *testing.T) {
		files := baseProduct()
		maps.Copy(files, good)
		files["node_modules/a/index.js"] = "before"
		s := newSession(t, files)
		wantFindings(t, s.judge(audit.Input{Packages: store}))
		s.write(map[string]string{"node_modules/a/lib/x.js": "evil"})
		wantFindings(t, s.judge(audit.Input{Packages: store}), "dependency node_modules/a changed: 1 paths")
		s.write(map[string]string{"node_modules/a/lib/x.js": "x", "node_modules/a/package.json": "{ }"})
		wantFindings(t, s.judge(audit.Input{Packages: store}), "dependency node_modules/a changed: 1 paths")
	})
}
