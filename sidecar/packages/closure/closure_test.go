package closure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/packages"
)

const testRegistry = "https://registry.example"

// recorded answers with the documents under testdata, as the registry did.
type recorded struct{ t *testing.T }

func (r recorded) Document(_ context.Context, name string) (*packages.Document, error) {
	data, err := os.ReadFile(filepath.Join("testdata", "registry", strings.ReplaceAll(name, "/", "%2F")+".json"))
	if err != nil {
		return nil, &packages.Error{Reason: packages.Unknown, Subject: name, Err: err}
	}
	return packages.ParseDocument(testRegistry, name, data)
}

// locked is what npm's own lock file installs, beside the product itself.
func locked(t *testing.T, data []byte, registry string) []string {
	t.Helper()
	entries, err := packages.ParseLock(data)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		id, err := e.Identity(registry)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, id.Spec()+" "+id.Integrity)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func specs(members []Member) []string {
	var all []string
	for _, m := range members {
		all = append(all, m.Spec()+" "+m.Integrity)
	}
	slices.Sort(all)
	return all
}

// difference prints what only one of two sorted lists has.
func difference(got, want []string) string {
	var b strings.Builder
	for _, s := range got {
		if !slices.Contains(want, s) {
			fmt.Fprintf(&b, "only in the closure: %s\n", s)
		}
	}
	for _, s := range want {
		if !slices.Contains(got, s) {
			fmt.Fprintf(&b, "only in npm's lock file: %s\n", s)
		}
	}
	return b.String()
}

// TestRecordedClosures compares three closures with the lock files that npm
// wrote: aliases and several versions of one package, an optional package of
// one platform, peers.
func TestRecordedClosures(t *testing.T) {
	for _, spec := range []string{"jackspeak@3.4.3", "chokidar@3.6.0", "ajv-formats@3.0.1"} {
		t.Run(spec, func(t *testing.T) {
			name, _, _ := strings.Cut(spec, "@")
			members, err := Resolve(t.Context(), recorded{t}, identity(t, recorded{t}, spec), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(filepath.Join("testdata", name+"-lock.json"))
			if err != nil {
				t.Fatal(err)
			}
			if d := difference(specs(members), locked(t, data, testRegistry)); d != "" {
				t.Error(d)
			}
			for _, m := range members {
				if fs := m.Name == "fsevents"; fs != m.Optional && m.Name != "@pkgjs/parseargs" || fs && !slices.Equal(m.OS, []string{"darwin"}) {
					t.Errorf("%+v", m)
				}
			}
		})
	}
}

func identity(t *testing.T, r Registry, spec string) packages.Identity {
	t.Helper()
	s, err := packages.ParseSpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Document(t.Context(), s.Name)
	if err != nil {
		t.Fatal(err)
	}
	id, err := d.Identity(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// made is a registry of packages that a test writes down: name@version to its
// entry's fields.
type made map[string]map[string]any

func (m made) Document(ctx context.Context, name string) (*packages.Document, error) {
	if err := ctx.Err(); err != nil {
		return nil, &packages.Error{Reason: packages.TimedOut, Subject: name, Err: err}
	}
	doc := map[string]any{"name": name}
	versions := map[string]any{}
	for spec, fields := range m {
		s, err := packages.ParseSpec(spec)
		if err != nil {
			return nil, err
		}
		if s.Name != name {
			continue
		}
		e := map[string]any{"name": name, "version": s.Version, "dist": map[string]any{"integrity": "sha512-" + strings.Repeat("A", 86) + "=="}}
		for k, v := range fields {
			e[k] = v
		}
		versions[s.Version] = e
	}
	if len(versions) == 0 {
		return nil, &packages.Error{Reason: packages.Unknown, Subject: name}
	}
	doc["versions"] = versions
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return packages.ParseDocument(testRegistry, name, data)
}

func deps(pairs ...string) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return map[string]any{"dependencies": m}
}

func as(kind string, fields map[string]any) map[string]any {
	return map[string]any{kind: fields["dependencies"]}
}

func TestClosureRules(t *testing.T) {
	tests := []struct {
		name     string
		registry made
		want     string // names and versions, or the reason
	}{
		{"alone", made{"a@1.0.0": nil}, "a@1.0.0"},
		{"a range takes the newest", made{"a@1.0.0": deps("b", "^1.0.0"), "b@1.0.0": nil, "b@1.2.0": nil, "b@2.0.0": nil}, "a@1.0.0 b@1.2.0"},
		{"but no prerelease", made{"a@1.0.0": deps("b", "^1.0.0"), "b@1.0.0": nil, "b@1.2.0-rc.1": nil}, "a@1.0.0 b@1.0.0"},
		{"and no deprecated one", made{"a@1.0.0": deps("b", "^1.0.0"), "b@1.0.0": nil, "b@1.2.0": {"deprecated": "no"}}, "a@1.0.0 b@1.0.0"},
		{"every version", made{"a@1.0.0": deps("b", "*", "c", ""), "b@1.0.0": nil, "c@1.0.0": nil}, "a@1.0.0 b@1.0.0 c@1.0.0"},
		{"a circle", made{"a@1.0.0": deps("b", "1"), "b@1.0.0": deps("a", "1")}, "a@1.0.0 b@1.0.0"},
		{"two versions of one", made{"a@1.0.0": deps("b", "1", "c", "1"), "c@1.0.0": deps("b", "2"), "b@1.0.0": nil, "b@2.0.0": nil}, "a@1.0.0 b@1.0.0 b@2.0.0 c@1.0.0"},
		{"an alias", made{"a@1.0.0": deps("x", "npm:@s/b@^1.0.0"), "@s/b@1.0.0": nil}, "@s/b@1.0.0 a@1.0.0"},
		{"a peer", made{"a@1.0.0": as("peerDependencies", deps("b", "1")), "b@1.0.0": nil}, "a@1.0.0 b@1.0.0"},
		{"an optional peer", made{"a@1.0.0": {"peerDependencies": map[string]any{"b": "1"}, "peerDependenciesMeta": map[string]any{"b": map[string]any{"optional": true}}}, "b@1.0.0": nil}, "a@1.0.0"},
		{"a development dependency", made{"a@1.0.0": as("devDependencies", deps("b", "1")), "b@1.0.0": nil}, "a@1.0.0"},
		{"an optional one", made{"a@1.0.0": as("optionalDependencies", deps("b", "1")), "b@1.0.0": {"os": []string{"aix"}}}, "a@1.0.0 b@1.0.0"},
		{"an optional one that is not there", made{"a@1.0.0": as("optionalDependencies", deps("b", "1"))}, "a@1.0.0"},
		{"an optional one without such a version", made{"a@1.0.0": as("optionalDependencies", deps("b", "2")), "b@1.0.0": nil}, "a@1.0.0"},
		{"a bundled one", made{"a@1.0.0": {"dependencies": map[string]any{"b": "1", "c": "1"}, "bundleDependencies": []string{"b"}}, "c@1.0.0": nil}, "a@1.0.0 c@1.0.0"},
		{"everything bundled", made{"a@1.0.0": {"dependencies": map[string]any{"b": "1"}, "bundleDependencies": true}}, "a@1.0.0"},

		{"not there", made{"a@1.0.0": deps("b", "1")}, "unsatisfiable"},
		{"no such version", made{"a@1.0.0": deps("b", "2"), "b@1.0.0": nil}, "unsatisfiable"},
		{"git", made{"a@1.0.0": deps("b", "git+https://host.example/b.git")}, "not-registry"},
		{"github", made{"a@1.0.0": deps("b", "user/repo")}, "not-registry"},
		{"a file", made{"a@1.0.0": deps("b", "file:../b")}, "not-registry"},
		{"another address", made{"a@1.0.0": deps("b", "https://host.example/b.tgz")}, "not-registry"},
		{"a name that is none", made{"a@1.0.0": deps("../b", "1")}, "bad-name"},
		{"an alias of a name that is none", made{"a@1.0.0": deps("b", "npm:../b@1")}, "bad-name"},
		{"a member without integrity", made{"a@1.0.0": deps("b", "1"), "b@1.0.0": {"dist": map[string]any{}}}, "no-integrity"},
		{"a member with sha1", made{"a@1.0.0": deps("b", "1"), "b@1.0.0": {"dist": map[string]any{"integrity": "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}}}, "weak-integrity"},
		{"a member of another name", made{"a@1.0.0": deps("b", "1"), "b@1.0.0": {"name": "c"}}, "other-entry"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			members, err := Resolve(t.Context(), tt.registry, identity(t, tt.registry, "a@1.0.0"), Limits{})
			if err != nil {
				if string(packages.ReasonOf(err)) != tt.want {
					t.Fatalf("%v, want %s", err, tt.want)
				}
				return
			}
			var got []string
			for _, m := range members {
				got = append(got, m.Spec())
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("%s, want %s", s, tt.want)
			}
		})
	}
}

// TestClosureBounds grows a chain and a fan past each limit.
func TestClosureBounds(t *testing.T) {
	chain := made{"a@1.0.0": deps("p0", "1")}
	for i := range 30 {
		chain[fmt.Sprintf("p%d@1.0.0", i)] = deps(fmt.Sprintf("p%d", i+1), "1")
	}
	chain["p30@1.0.0"] = nil
	root := identity(t, chain, "a@1.0.0")
	if members, err := Resolve(t.Context(), chain, root, Limits{}); err != nil || len(members) != 32 {
		t.Fatalf("the control: %d members, %v", len(members), err)
	}
	for want, limits := range map[packages.Reason]Limits{
		packages.TooManyMembers: {Members: 31}, packages.TooLarge: {Bytes: 2000}, packages.TimedOut: {Timeout: time.Nanosecond},
	} {
		if _, err := Resolve(t.Context(), chain, root, limits); packages.ReasonOf(err) != want {
			t.Errorf("%+v: %v", limits, err)
		}
	}
	if _, err := Resolve(t.Context(), chain, root, Limits{Documents: 31}); packages.ReasonOf(err) != packages.TooManyMembers {
		t.Errorf("documents: %v", err)
	}
	with := made{"a@1.0.0": {"scripts": map[string]any{"postinstall": "x", "test": "y"}}, "b@1.0.0": {"scripts": map[string]any{"test": "y"}}}
	for spec, scripts := range map[string]bool{"a@1.0.0": true, "b@1.0.0": false} {
		if m, err := Resolve(t.Context(), with, identity(t, with, spec), Limits{}); err != nil || len(m) != 1 || m[0].Scripts != scripts {
			t.Errorf("%s: %+v, %v", spec, m, err)
		}
	}
	other := root
	other.Integrity = "sha512-" + strings.Repeat("B", 85) + "A=="
	if _, err := Resolve(t.Context(), chain, other, Limits{}); packages.ReasonOf(err) != packages.OtherIntegrity {
		t.Errorf("another root: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Resolve(ctx, chain, root, Limits{}); err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
