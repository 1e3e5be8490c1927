package packages

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRecordedLocks reads files that npm wrote.
func TestRecordedLocks(t *testing.T) {
	for name, want := range map[string]struct{ entries, aliases int }{
		"jackspeak": {25, 3}, "chokidar": {15, 0}, "ajv-formats": {6, 0},
	} {
		data, err := os.ReadFile(filepath.Join("closure", "testdata", name+"-lock.json"))
		if err != nil {
			t.Fatal(err)
		}
		entries, err := ParseLock(data)
		if err != nil {
			t.Fatal(err)
		}
		aliases := 0
		for _, e := range entries {
			if _, err := e.Identity(testRegistry); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if e.Alias {
				aliases++
			}
		}
		if len(entries) != want.entries || aliases != want.aliases {
			t.Errorf("%s: %d entries, %d aliases", name, len(entries), aliases)
		}
	}
}

func TestLockFormats(t *testing.T) {
	sum := "sha512-" + strings.Repeat("A", 86) + "=="
	entry := func(version string) string { return fmt.Sprintf(`{"version":%q,"integrity":%q}`, version, sum) }
	tests := []struct {
		name, data string
		want       []string // place name@version
		reason     Reason
	}{
		{
			"version 3", `{"lockfileVersion":3,"packages":{"":{"name":"p"},"node_modules/a":` + entry("1.0.0") + `,"node_modules/a/node_modules/@s/b":` + entry("2.0.0") + `}}`,
			[]string{"node_modules/a a@1.0.0", "node_modules/a/node_modules/@s/b @s/b@2.0.0"},
			"",
		},
		{
			"version 2 has both", `{"lockfileVersion":2,"packages":{"node_modules/a":` + entry("1.0.0") + `},"dependencies":{"a":` + entry("6.6.6") + `}}`,
			[]string{"a a@6.6.6", "node_modules/a a@1.0.0"},
			"",
		},
		{
			"version 1, nested", `{"lockfileVersion":1,"dependencies":{"a":{"version":"1.0.0","integrity":"` + sum + `","dependencies":{"b":` + entry("2.0.0") + `}}}}`,
			[]string{"a a@1.0.0", "a > b b@2.0.0"},
			"",
		},
		{"an alias of version 1", `{"lockfileVersion":1,"dependencies":{"a":` + entry("npm:@s/b@2.0.0") + `}}`, []string{"a @s/b@2.0.0"}, ""},
		{"nothing", `{"lockfileVersion":3}`, nil, ""},
		{"another version", `{"lockfileVersion":4,"packages":{}}`, nil, Malformed},
		{"no version", `{"packages":{}}`, nil, Malformed},
		{"a package twice", `{"lockfileVersion":3,"packages":{"node_modules/a":{},"node_modules/a":{}}}`, nil, DuplicateKey},
		{"a package is no object", `{"lockfileVersion":3,"packages":{"node_modules/a":[]}}`, nil, Malformed},
		{"an integrity of another kind", `{"lockfileVersion":3,"packages":{"node_modules/a":{"integrity":1}}}`, nil, Malformed},
		{"an integrity in another case too", `{"lockfileVersion":3,"packages":{"node_modules/a":{"Integrity":"x"}}}`, nil, Malformed},
		{"not JSON", `lockfileVersion: 3`, nil, Malformed},
		{"a byte order mark", "\ufeff" + `{"lockfileVersion":3}`, nil, Malformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			entries, err := ParseLock([]byte(tt.data))
			if tt.reason != "" {
				if err == nil || ReasonOf(err) != tt.reason {
					t.Fatalf("error %v, want %s", err, tt.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(entries, func(a, b LockEntry) int { return cmp.Compare(a.Place, b.Place) })
			var got []string
			for _, e := range entries {
				got = append(got, e.Place+" "+e.Name+"@"+e.Version)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestLockEntries is the list of what a lock file may lead to beside the registry.
func TestLockEntries(t *testing.T) {
	sum := "sha512-" + strings.Repeat("A", 86) + "=="
	good := LockEntry{Place: "node_modules/a", Name: "a", Version: "1.0.0", Resolved: testRegistry + "/a/-/a-1.0.0.tgz", Integrity: sum}
	tests := []struct {
		name   string
		change func(*LockEntry)
		want   Reason
	}{
		{"of the registry", func(*LockEntry) {}, ""},
		{"without an address", func(e *LockEntry) { e.Resolved = "" }, ""},
		{"git", func(e *LockEntry) { e.Resolved = "git+ssh://git@host.example/u/r.git#0123"; e.Integrity = "" }, NotRegistry},
		{"git with an integrity", func(e *LockEntry) { e.Resolved = "git+https://host.example/u/r.git#0123" }, NotRegistry},
		{"github", func(e *LockEntry) { e.Resolved = "github:u/r" }, NotRegistry},
		{"a file", func(e *LockEntry) { e.Resolved = "file:../a.tgz" }, NotRegistry},
		{"a link", func(e *LockEntry) { e.Link, e.Resolved = true, "packages/a" }, NotRegistry},
		{"a link to an address of the registry", func(e *LockEntry) { e.Link = true }, NotRegistry},
		{"a directory of the product", func(e *LockEntry) { e.Local = true }, NotRegistry},
		{"http", func(e *LockEntry) { e.Resolved = "http://registry.example/a/-/a-1.0.0.tgz" }, NotRegistry},
		{"another host", func(e *LockEntry) { e.Resolved = "https://registry.example.evil/a/-/a-1.0.0.tgz" }, NotRegistry},
		{"another port", func(e *LockEntry) { e.Resolved = "https://registry.example:444/a/-/a-1.0.0.tgz" }, NotRegistry},
		{"credentials", func(e *LockEntry) { e.Resolved = "https://registry.example@evil.example/a-1.0.0.tgz" }, NotRegistry},
		{"above the registry", func(e *LockEntry) { e.Resolved = testRegistry + "/../evil.tgz" }, NotRegistry},
		{"above it, escaped", func(e *LockEntry) { e.Resolved = testRegistry + "/%2E%2e/evil.tgz" }, NotRegistry},
		{"a query", func(e *LockEntry) { e.Resolved += "?x" }, NotRegistry},
		{"an address in the version", func(e *LockEntry) { e.Resolved, e.Integrity, e.Version = "", "", "git+https://h.example/r.git" }, NotRegistry},
		{"no integrity", func(e *LockEntry) { e.Integrity = "" }, NoIntegrity},
		{"sha1", func(e *LockEntry) { e.Integrity = "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=" }, WeakIntegrity},
		{"two sums", func(e *LockEntry) { e.Integrity += " " + sum }, WeakIntegrity},
		{"a range", func(e *LockEntry) { e.Version = "^1.0.0" }, BadVersion},
		{"no version", func(e *LockEntry) { e.Version = "" }, BadVersion},
		{"a name that is none", func(e *LockEntry) { e.Name = "../a" }, BadName},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := good
			tt.change(&e)
			id, err := e.Identity(testRegistry)
			if (err == nil) != (tt.want == "") || err != nil && ReasonOf(err) != tt.want {
				t.Fatalf("%+v: %+v, %v, want %q", e, id, err, tt.want)
			}
		})
	}
}

func TestLockCovered(t *testing.T) {
	parent := "node_modules/a"
	for _, tt := range []struct {
		e    LockEntry
		want bool
	}{
		{LockEntry{Place: parent + "/node_modules/b", Bundled: true}, true},
		{LockEntry{Place: "a > b", Bundled: true}, true},
		{LockEntry{Place: parent + "/node_modules/b"}, false},
		{LockEntry{Place: "node_modules/b", Bundled: true}, false},
		{LockEntry{Place: parent + "/node_modules/b", Bundled: true, Resolved: "git+https://evil.example/r.git"}, false},
		{LockEntry{Place: parent + "/node_modules/b", Bundled: true, Link: true}, false},
	} {
		if tt.e.Covered() != tt.want {
			t.Errorf("%+v: %v", tt.e, !tt.want)
		}
	}
}

// TestLockBundles: an entry is bundled where npm takes it as that, not where the
// file says so. Each row's entry "x" says so.
func TestLockBundles(t *testing.T) {
	for name, tt := range map[string]struct {
		packages string
		want     bool
	}{
		"named by the one above":       {`"node_modules/a":{"dependencies":{"x":"1"}},"node_modules/a/node_modules/x":{"inBundle":true}`, true},
		"listed by the one above":      {`"node_modules/a":{"bundleDependencies":["x"]},"node_modules/a/node_modules/x":{"inBundle":true}`, true},
		"an optional one":              {`"node_modules/a":{"optionalDependencies":{"x":"1"}},"node_modules/a/node_modules/x":{"inBundle":true}`, true},
		"needed by nobody":             {`"node_modules/a":{},"node_modules/a/node_modules/x":{"inBundle":true}`, false},
		"by one that is not there":     {`"node_modules/a/node_modules/x":{"inBundle":true}`, false},
		"needed by a bundled one":      {`"node_modules/a":{"dependencies":{"b":"1"}},"node_modules/a/node_modules/b":{"inBundle":true,"dependencies":{"x":"1"}},"node_modules/a/node_modules/x":{"inBundle":true}`, true},
		"needed by one that is not":    {`"node_modules/a":{"dependencies":{"b":"1"}},"node_modules/a/node_modules/b":{"dependencies":{"x":"1"}},"node_modules/a/node_modules/x":{"inBundle":true}`, false},
		"needed by one with its own":   {`"node_modules/a":{"dependencies":{"b":"1"}},"node_modules/a/node_modules/b":{"inBundle":true,"dependencies":{"x":"1"}},"node_modules/a/node_modules/b/node_modules/x":{"inBundle":true},"node_modules/a/node_modules/x":{"inBundle":true}`, false},
		"below a bundled one":          {`"node_modules/a":{"dependencies":{"b":"1"}},"node_modules/a/node_modules/b":{"inBundle":true},"node_modules/a/node_modules/b/node_modules/x":{"inBundle":true}`, true},
		"below one that only says so":  {`"node_modules/a":{},"node_modules/a/node_modules/b":{"inBundle":true,"dependencies":{"x":"1"}},"node_modules/a/node_modules/b/node_modules/x":{"inBundle":true}`, false},
		"in the product's own archive": {`"":{"dependencies":{"x":"1"}},"node_modules/x":{"inBundle":true}`, false},
	} {
		entries, err := ParseLock([]byte(`{"lockfileVersion":3,"packages":{` + tt.packages + `}}`))
		if err != nil {
			t.Fatal(name, err)
		}
		// The shortest place is the one that a row is about.
		slices.SortFunc(entries, func(a, b LockEntry) int { return cmp.Compare(len(a.Place), len(b.Place)) })
		i := slices.IndexFunc(entries, func(e LockEntry) bool { return e.Name == "x" })
		if entries[i].Covered() != tt.want {
			t.Errorf("%s: %+v", name, entries[i])
		}
	}
	// The old format's word counts only where the newer one's does.
	for packages, want := range map[string]bool{
		`"node_modules/a":{"dependencies":{"x":"1"}},"node_modules/a/node_modules/x":{"inBundle":true}`: true, ``: false,
	} {
		entries, err := ParseLock([]byte(`{"lockfileVersion":2,"packages":{` + packages + `},"dependencies":{"a":{"dependencies":{"x":{"version":"1.0.0","bundled":true}}}}}`))
		i := slices.IndexFunc(entries, func(e LockEntry) bool { return e.Place == "a > x" })
		if err != nil || entries[i].Covered() != want {
			t.Errorf("%q: %+v, %v", packages, entries, err)
		}
	}
}

func TestLockBounds(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"lockfileVersion":3,"packages":{`)
	for i := range MaxLockEntries {
		fmt.Fprintf(&b, `"node_modules/a%d":{},`, i)
	}
	if _, err := ParseLock([]byte(b.String() + `"":{}}}`)); err != nil {
		t.Error(err)
	}
	if _, err := ParseLock([]byte(b.String() + `"node_modules/b":{}}}`)); ReasonOf(err) != TooManyMembers {
		t.Errorf("one more: %v", err)
	}
	deep := strings.Repeat(`{"dependencies":{"a":`, 20) + `{}` + strings.Repeat(`}}`, 20)
	if _, err := ParseLock([]byte(`{"lockfileVersion":1,` + deep[1:])); ReasonOf(err) != Malformed {
		t.Errorf("deep: %v", err)
	}
}

func FuzzParseLock(f *testing.F) {
	f.Add([]byte(`{"lockfileVersion":3,"packages":{"":{},"node_modules/a":{"version":"1.0.0","integrity":"sha512-x"}}}`))
	f.Add([]byte(`{"lockfileVersion":1,"dependencies":{"a":{"version":"npm:b@1.0.0","dependencies":{"c":{}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := ParseLock(data)
		if err != nil {
			return
		}
		for _, e := range entries {
			id, err := e.Identity(testRegistry)
			if err == nil && (id.Check() != nil || e.Link || e.Local || e.Covered()) {
				t.Fatalf("%+v gives %+v", e, id)
			}
		}
	})
}
