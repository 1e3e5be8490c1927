package chain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox/chain"
)

func session(place chain.Place, checks ...string) chain.Session {
	s := chain.Session{
		Product: "/srv/site", Policy: []byte("version: 1\n"), Place: place,
		Agent: chain.Process{Image: "a:1", Argv: []string{"agent", "--", "$x"}, Timeout: time.Hour},
	}
	for _, name := range checks {
		s.Checks = append(s.Checks, chain.Check{Name: name, Dir: ".", Process: chain.Process{Image: "c:1", Argv: []string{"sh"}}})
	}
	return s
}

func sessions() map[string]chain.Session {
	return map[string]chain.Session{
		"no checks": session(chain.Stack), "one": session(chain.Stack, "unit"),
		"two": session(chain.Stack, "unit", "lint"), "pod": session(chain.Pod, "unit", "lint"),
	}
}

func steps(t *testing.T, s chain.Session) []chain.Step {
	t.Helper()
	all, err := s.Steps()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestOrder: going through the list keeps every After, each step but the first
// has one, and nothing is twice.
func TestOrder(t *testing.T) {
	for name, s := range sessions() {
		done := map[string]chain.Step{}
		for n, step := range steps(t, s) {
			if _, twice := done[step.Name]; twice {
				t.Errorf("%s: %s twice", name, step.Name)
			}
			if len(step.After) == 0 && step.Name != "init" && n > 0 {
				t.Errorf("%s: %s waits for nothing", name, step.Name)
			}
			for _, a := range step.After {
				before, ok := done[a.Step]
				if !ok {
					t.Errorf("%s: %s is before %s", name, step.Name, a.Step)
				}
				if goesOn := before.Ready != nil; goesOn != (a.Until == chain.IsReady) {
					t.Errorf("%s: %s waits for %s in the wrong way", name, step.Name, a.Step)
				}
			}
			done[step.Name] = step
		}
		if all := steps(t, s); all[len(all)-1].Name != "seal" {
			t.Errorf("%s: the last step is %s", name, all[len(all)-1].Name)
		}
	}
}

// TestMounts: who sees what. A volume that is not in the table fails.
func TestMounts(t *testing.T) {
	rw := map[string][]string{ // volume: steps that write
		chain.Root: {"init"}, chain.LedgerKeys: {"init"}, chain.Ledger: {"init", "open", "seal"},
		chain.Part: {"init", "open", "serve", "seal"}, chain.Seals: {"seal"}, chain.Stage: {"stage", "agent"},
		chain.Programs: {"prepare"}, chain.Sockets: {"prepare", "serve"}, chain.Checks: {"prepare", "serve"},
		chain.ReaderDoor: {"prepare", "serve"}, chain.Facts: {"prepare", "read"}, chain.Baseline: {"prepare", "stage"},
		chain.Original: {},
	}
	secret := []string{chain.Root, chain.LedgerKeys, chain.Ledger, chain.Part, chain.Seals}
	for name, s := range sessions() {
		owner := map[string]bool{}
		for _, step := range steps(t, s) {
			for _, m := range step.Mounts {
				writers, known := rw[m.Volume]
				if !known || (m.How != chain.ReadOnly && !slices.Contains(writers, step.Name)) {
					t.Errorf("%s: %s has %s as %d", name, step.Name, m.Volume, m.How)
				}
				if step.Who != chain.Supervisor && slices.Contains(secret, m.Volume) {
					t.Errorf("%s: %s has %s", name, step.Name, m.Volume)
				}
				if m.Volume == chain.Root && !slices.Contains([]string{"init", "open", "seal"}, step.Name) {
					t.Errorf("%s: %s has the root key", name, step.Name)
				}
				if m.Volume == chain.Stage && step.Who == chain.Supervisor || m.Volume == chain.Original && step.Who != chain.Stager {
					t.Errorf("%s: %s has %s", name, step.Name, m.Volume)
				}
				if m.How == chain.Own && owner[m.Volume] {
					t.Errorf("%s: %s has two owners", name, m.Volume)
				}
				owner[m.Volume] = owner[m.Volume] || m.How != chain.ReadOnly
			}
		}
		for _, volume := range chain.Volumes(steps(t, s)) {
			if !owner[volume] && volume != chain.Root {
				t.Errorf("%s: nobody writes %s", name, volume)
			}
		}
	}
	if given := steps(t, sessions()["pod"]); slices.ContainsFunc(given, func(s chain.Step) bool { return s.Name == "init" }) {
		t.Error("a key that was given is made")
	}
}

// TestTools: no tool but rotate, which makes one, has the root key, and none has control and a product.
func TestTools(t *testing.T) {
	s := session(chain.Stack, "unit")
	s.Doors = true
	doors := false
	for _, tool := range s.Tools() {
		control, product := false, false
		for _, m := range tool.Mounts {
			control = control || slices.Contains([]string{chain.LedgerKeys, chain.Ledger, chain.Part, chain.Seals, chain.Secrets}, m.Volume)
			product = product || m.Volume == chain.Stage || m.Volume == chain.Original
			writes := m.How != chain.ReadOnly
			may := map[string][]string{
				chain.Root: {"rotate"}, chain.LedgerKeys: {"rotate"}, chain.Ledger: {"trust", "rotate"},
				chain.Release: {"release"}, chain.Original: {"apply"}, chain.Secrets: {"give"},
			}[m.Volume]
			if (writes || m.Volume == chain.Root) && !slices.Contains(may, tool.Name) {
				t.Errorf("%s has %s", tool.Name, m.Volume)
			}
			doors = doors || m.Volume == chain.Secrets
		}
		if control == product || control != (tool.Who == chain.Supervisor) || tool.Network != chain.NoNetwork {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
	}
	s.Registry = "https://registry.example.test"
	for _, tool := range s.Tools() {
		if given := slices.Contains(tool.Argv, s.Registry); given != (tool.Name == "trust") {
			t.Errorf("%s: the registry is given: %v", tool.Name, given)
		}
	}
	if !doors {
		t.Error("nothing gives the doors what they need")
	}
	for _, step := range steps(t, s) {
		has := slices.ContainsFunc(step.Mounts, func(m chain.Mount) bool { return m.Volume == chain.Secrets || m.Volume == chain.Cache })
		if (step.Network == chain.Outside) != (step.Name == "serve") || has != (step.Name == "serve") {
			t.Errorf("doors: %s: network %d, what serve has %v", step.Name, step.Network, has)
		}
	}
	for _, step := range steps(t, session(chain.Stack)) {
		if step.Network != chain.NoNetwork {
			t.Errorf("without doors: %s has a network", step.Name)
		}
	}
}

// TestArguments: what stands after the last -- is the operator's, as it is.
func TestArguments(t *testing.T) {
	for _, step := range steps(t, session(chain.Stack, "unit")) {
		if step.Name != "agent" && step.Name != "open" {
			continue
		}
		if n := len(step.Argv); !slices.Equal(step.Argv[n-4:], []string{"--", "agent", "--", "$x"}) {
			t.Errorf("%s: %q", step.Name, step.Argv)
		}
	}
	s := session(chain.Stack)
	s.Policy = []byte(strings.Repeat("#", 100<<10+1))
	if _, err := s.Steps(); err == nil || !strings.Contains(err.Error(), "102400 at most") {
		t.Errorf("large policy: %v", err)
	}
	for _, break1 := range []func(*chain.Session){func(s *chain.Session) { s.Product = "" }, func(s *chain.Session) { s.Agent.Argv = nil }} {
		s := session(chain.Stack)
		break1(&s)
		if _, err := s.Steps(); err == nil {
			t.Error("something that is missing was taken")
		}
	}
}
