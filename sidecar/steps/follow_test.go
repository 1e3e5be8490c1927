package steps_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// TestRotationWhileItServes: a running session goes on after an ordinary
// rotation, with what was and what is approved since; after a rotation for a
// compromised key it allows nothing, nor by a chain that does not continue its own.
func TestRotationWhileItServes(t *testing.T) {
	for _, c := range []struct {
		name   string
		rotate []keys.Reason
		after  func(c *control, s *live) // before the supervisor looks
		goesOn bool
	}{
		{"once", []keys.Reason{keys.Routine}, nil, true},
		{"twice", []keys.Reason{keys.Routine, keys.Routine}, nil, true},
		{"compromised", []keys.Reason{keys.Leaked}, nil, false},
		{"compromised, then again", []keys.Reason{keys.Leaked, keys.Routine}, nil, false},
		{"unpublished", []keys.Reason{keys.Routine}, func(c *control, s *live) {
			c.must(os.Remove(filepath.Join(s.layout.Ledger, "chain.json")))
		}, false},
		{"a foreign chain", []keys.Reason{keys.Routine}, func(c *control, s *live) {
			other := newControl(c)
			c.must(steps.Rotate(c.Context(), other.layout, keys.Routine, "tester", new(bytes.Buffer)))
			c.must(os.Rename(filepath.Join(other.layout.Ledger, "chain.json"), filepath.Join(s.layout.Ledger, "chain.json")))
		}, false},
		{"nonsense", []keys.Reason{keys.Routine}, func(c *control, s *live) {
			c.must(os.WriteFile(filepath.Join(s.layout.Ledger, "chain.json"), []byte("{}\n"), 0o600))
		}, false},
		{"a foreign ledger", nil, func(c *control, s *live) {
			copyDir(c, newControl(c).layout.Ledger, s.layout.Ledger)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctl := newControl(t)
			s := ctl.serving("aaaaaaaaaaaa")
			approve := func(content string) {
				t.Helper()
				s.shows(envrc, content)
				_, err := s.trust("approve", envrc, func(r *wire.TrustRequest) { r.Kept, r.Expect = true, sumOf(content) })
				s.must(err)
			}
			approve("one")
			if d := s.shows(envrc, "one"); !d.Allowed {
				t.Fatalf("before: %+v", d)
			}
			for _, reason := range c.rotate {
				s.must(steps.Rotate(t.Context(), s.layout, reason, "tester", new(bytes.Buffer)))
			}
			if c.after != nil {
				c.after(ctl, s)
			}
			if d := s.shows(envrc, "one"); d.Allowed != c.goesOn {
				t.Errorf("after: %+v", d)
			}
			if c.goesOn {
				approve("two")
				if d := s.shows(envrc, "two"); !d.Allowed {
					t.Errorf("approved after: %+v", d)
				}
			}
			s.must(s.stop())
		})
	}
}
