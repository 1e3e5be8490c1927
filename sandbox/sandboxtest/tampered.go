package sandboxtest

import (
	"errors"
	"strconv"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

func itoa(n int) string { return strconv.Itoa(n) }

// testTampered: a maker that does anything else than it was told is found out
// at Create, and nothing of it stays.
func (s *suite) testTampered(t *testing.T) {
	for _, how := range tampers() {
		t.Run(string(how), func(t *testing.T) {
			engine := s.f.Tampered(t, how)
			if engine == nil {
				return
			}
			ctx := testContext(t)
			spec := s.spec(sandbox.RoleAgent, "wait")
			dir := s.dir(t, spec.Identity)
			spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: dir, Target: "/job"}}
			before := s.leftovers(t)
			c, err := engine.Create(ctx, spec, sandbox.Streams{})
			if err == nil {
				defer remove(t, c)
			}
			if how == TamperNothing {
				if err != nil {
					t.Errorf("the control was refused: %v", err)
				}
				return
			}
			var refused *sandbox.RefusedError
			if !errors.As(err, &refused) || len(refused.Problems) == 0 {
				t.Fatalf("Create said %v, want a RefusedError with problems", err)
			}
			for name := range s.leftovers(t) {
				if !before[name] {
					t.Errorf("the refused container left %s", name)
				}
			}
			t.Log(refused)
		})
	}
}
