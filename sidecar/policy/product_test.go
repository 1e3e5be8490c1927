package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/hosts"
	"github.com/proctor-project/proctor/sidecar/policy"
)

func narrow(t *testing.T, operators, products string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte("version: 1\n"+operators))
	if err != nil {
		t.Fatal(err)
	}
	by, err := policy.ParseProduct("proctor.yaml", []byte("version: 1\n"+products))
	if err != nil {
		t.Fatal(err)
	}
	return p.Narrow(by)
}

// TestNarrowing: a product's policy takes away, and gives nothing.
func TestNarrowing(t *testing.T) {
	defaults := narrow(t, "", "")
	for _, c := range []struct {
		name, operators, products string
		holds                     func(p *policy.Policy) bool
	}{
		{"nothing set is the operator's own, not a default", "agent: {timeout: 2h}\n", "agent: {}\n", func(p *policy.Policy) bool { return p.Agent.Timeout == 2*time.Hour }},
		{"a smaller limit counts", "agent: {timeout: 2h}\n", "agent: {timeout: 1h}\n", func(p *policy.Policy) bool { return p.Agent.Timeout == time.Hour }},
		{"a larger one does not", "agent: {timeout: 1h}\n", "agent: {timeout: 2h}\n", func(p *policy.Policy) bool { return p.Agent.Timeout == time.Hour }},
		{"a larger one than the default does not", "", "agent: {limits: {memory: 1TiB, pids: 1000000, cpus: 64, open_files: 1048576}, output: 1GiB}\n", func(p *policy.Policy) bool {
			return p.Agent.Limits == defaults.Agent.Limits && p.Agent.Output == defaults.Agent.Output
		}},
		{"limits one by one", "", "agent: {limits: {memory: 64MiB, pids: 20}}\n", func(p *policy.Policy) bool {
			return p.Agent.Limits.Memory == 64<<20 && p.Agent.Limits.PIDs == 20 && p.Agent.Limits.MilliCPUs == defaults.Agent.Limits.MilliCPUs
		}},
		{"the audit's limits", "audit: {max_entries: 1000}\n", "audit: {max_entries: 10, max_file_size: 1KiB, timeout: 1s}\n", func(p *policy.Policy) bool {
			return p.Audit.MaxEntries == 10 && p.Audit.MaxFileSize == 1<<10 && p.Audit.Timeout == time.Second && p.Audit.MaxTotalSize == defaults.Audit.MaxTotalSize
		}},
		{"protected paths are both's", "protected: [a]\n", "protected: [b]\n", func(p *policy.Policy) bool {
			return policy.AnyMatch(p.Protected, "a") && policy.AnyMatch(p.Protected, "b")
		}},
		{"so is what is not staged", "stage: {exclude: [a]}\n", "stage: {exclude: [b]}\n", func(p *policy.Policy) bool {
			return policy.AnyMatch(p.Stage.Exclude, "a") && policy.AnyMatch(p.Stage.Exclude, "b")
		}},
		{"the stricter class", "classes: {review: list, tree: list}\n", "classes: {review: fail}\n", func(p *policy.Policy) bool {
			return p.Classes.Review == policy.HandleFail && p.Classes.Tree == policy.HandleList
		}},
		{"no laxer class", "classes: {review: fail}\n", "classes: {review: list, tree: list}\n", func(p *policy.Policy) bool {
			return p.Classes.Review == policy.HandleFail && p.Classes.Tree == policy.HandleFail
		}},
		{"packages: both have to allow", "packages: {allow: [\"lint*\", other]}\n", "packages: {allow: [lint-js, more]}\n", func(p *policy.Policy) bool {
			allows := func(name string) bool { _, ok := p.PackageAllowed(name); return ok }
			return allows("lint-js") && !allows("lint-css") && !allows("other") && !allows("more")
		}},
		{"packages: an empty list says nothing", "packages: {allow: [a]}\n", "packages: {allow: []}\n", func(p *policy.Policy) bool {
			_, ok := p.PackageAllowed("a")
			return ok
		}},
		{"packages: denials of both", "packages: {deny: [a]}\n", "packages: {deny: [b]}\n", func(p *policy.Policy) bool {
			_, a := p.PackageDenied("a")
			_, b := p.PackageDenied("b")
			_, c := p.PackageDenied("c")
			return a && b && !c
		}},
		{"hosts", "egress: {door: open, allow: [\"a.example:443\", \"b.example:443\"], deny: [\"c.example:443\"]}\n", "egress: {allow: [\"b.example:443\", \"d.example:443\"], deny: [\"e.example:443\"]}\n", func(p *policy.Policy) bool {
			b, err := hosts.Parse("b.example:443")
			return err == nil && len(p.Egress.Allow) == 2 && len(p.Egress.Also) == 2 && p.Egress.Also[0].Matches(b) && len(p.Egress.Deny) == 2
		}},
		{"no door is opened", "", "egress: {allow: [\"a.example:443\"]}\n", func(p *policy.Policy) bool {
			return p.Egress.Door == policy.Closed && len(p.Egress.Allow) == 0
		}},
	} {
		if p := narrow(t, c.operators, c.products); !c.holds(p) {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// TestNarrowingLeavesTheOperatorsAlone: the policy itself is not changed.
func TestNarrowingLeavesTheOperatorsAlone(t *testing.T) {
	p, err := policy.Parse("policy.yaml", []byte("version: 1\nprotected: [a]\n"))
	if err != nil {
		t.Fatal(err)
	}
	by, err := policy.ParseProduct("proctor.yaml", []byte("version: 1\nprotected: [b]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Narrow(by); policy.AnyMatch(p.Protected, "b") {
		t.Error("changed")
	}
}

// TestProductPolicyOnlyNarrows: fields that could give something are unknown in a
// product's policy, each with its line.
func TestProductPolicyOnlyNarrows(t *testing.T) {
	for _, field := range []string{
		"allow: [no-limits]", "observer: {chain: allow}", "checks: [{name: a, argv: [a]}]", "services: []", "ports: {proxy: 2000}",
		"agent: {engine: docker}", "agent: {runtime: runsc}", "agent: {image: {kind: host}}", "agent: {command: [a]}", "agent: {env: {A: b}}",
		"agent: {env_pass: [HOME]}", "agent: {mounts: []}", "agent: {grace: 1s}", "packages: {registry: \"https://registry.example\"}", "egress: {door: open}",
	} {
		_, err := policy.ParseProduct("proctor.yaml", []byte("version: 1\n"+field+"\n"))
		if err == nil || !strings.Contains(err.Error(), "proctor.yaml:2: ") || !strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s: %v", field, err)
		}
		if _, err := policy.Parse("policy.yaml", []byte("version: 1\n"+field+"\n")); err != nil {
			t.Errorf("%s is no field of the operator's either: %v", field, err)
		}
	}
	for _, bad := range []string{"", "version: 2\n", "version: 1\nversion: 1\n", "version: 1\nprotected: a\n", "version: 1\n---\nversion: 1\n", "version: 1\npackages: {deny: [\"a@1.0.0\"]}\n"} {
		if _, err := policy.ParseProduct("proctor.yaml", []byte(bad)); err == nil {
			t.Errorf("%q: taken", bad)
		}
	}
}

func FuzzParseProduct(f *testing.F) {
	f.Add([]byte("version: 1\nprotected: [a]\nagent: {limits: {memory: 64MiB}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		by, err := policy.ParseProduct("proctor.yaml", data)
		if err != nil {
			return
		}
		p, err := policy.Parse("policy.yaml", []byte("version: 1\n"))
		if err != nil {
			t.Fatal(err)
		}
		n := p.Narrow(by)
		if n.Agent.Timeout > p.Agent.Timeout || n.Agent.Limits.Memory > p.Agent.Limits.Memory || n.Audit.MaxEntries > p.Audit.MaxEntries || len(n.Protected) < len(p.Protected) {
			t.Errorf("wider: %+v", n)
		}
	})
}
