package sandboxtest

import (
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

// testLimits: processes and open files. A fork bomb stays in its container.
func (s *suite) testLimits(t *testing.T) {
	spec := s.spec(sandbox.RoleAgent, "fork", "60")
	spec.Limits.PIDs = 40
	if got := s.run(t, spec); strings.Contains(got.stdout, "started 60") {
		t.Errorf("60 processes were started under a limit of 40: %+v, %q", got.exit, got.stdout)
	}
	spec = s.spec(sandbox.RoleAgent, "fork", "60")
	spec.Limits.PIDs = 2000
	if got := s.run(t, spec); got.exit.Code != 0 || !strings.Contains(got.stdout, "started 60") {
		t.Errorf("under a limit of 2000: %+v, %q %q", got.exit, got.stdout, got.stderr)
	}
	for _, n := range []int{64, 200} {
		spec = s.spec(sandbox.RoleAgent)
		spec.Limits.OpenFiles = uint64(n)
		got := s.try(t, spec, op{"files"})
		want(t, got, "EMFILE")
		var open int
		if got[0].into(t, &open); open > n || open < n/2 {
			t.Errorf("%d files could be open under a limit of %d", open, n)
		}
	}
}

// testOutOfMemory: the engine says so, also when only a child was killed and
// the container ended with 0.
func (s *suite) testOutOfMemory(t *testing.T) {
	const over, under = "300000000", "20000000"
	for range 3 { // the report must not depend on which event comes first
		spec := s.spec(sandbox.RoleCheck, "try", "memory", over)
		spec.Limits.Memory = 96 << 20
		got := s.run(t, spec)
		if !got.exit.OOM || got.exit.Code != 137 {
			t.Errorf("over the limit: %+v %q, want OOM and 137", got.exit, got.stdout)
		}
		spec = s.spec(sandbox.RoleCheck, "try", "child-memory", over)
		spec.Limits.Memory = 96 << 20
		got = s.run(t, spec)
		switch {
		case unseen(spec): // the limit is gVisor's kernel's, with which all of it ends
			if !got.exit.OOM || got.exit.Code != 137 {
				t.Errorf("a child over the limit: %+v, want OOM and 137", got.exit)
			}
		case !got.exit.OOM || got.exit.Code != 0 || !strings.Contains(got.stdout, "killed"):
			t.Errorf("a child over the limit: %+v %q, want OOM and 0", got.exit, got.stdout)
		}
	}
	spec := s.spec(sandbox.RoleCheck, "try", "child-memory", under)
	spec.Limits.Memory = 96 << 20
	if got := s.run(t, spec); got.exit.OOM || got.exit.Code != 0 || !strings.Contains(got.stdout, "survived") {
		t.Errorf("under the limit: %+v %q", got.exit, got.stdout)
	}
	// Killed with the same code, and not for memory.
	c, _ := s.ready(t, s.spec(sandbox.RoleCheck, "wait"), sandbox.Streams{})
	if err := c.Kill(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if exit, err := c.Wait(testContext(t)); err != nil || exit.OOM || exit.Code != 137 {
		t.Errorf("killed from outside: %+v, %v", exit, err)
	}
}
