package sandboxtest

import (
	"errors"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

// testGVisor: what gVisor would leave out without a word is refused.
func (s *suite) testGVisor(t *testing.T) {
	stage, other := s.dir(t, s.f.Hostile), s.dir(t, s.f.Hostile)
	layer := sandbox.Mount{Kind: sandbox.MountLayer, Source: stage, Target: "/job", Writable: true, Size: 1 << 20}
	bind := sandbox.Mount{Kind: sandbox.MountBind, Source: other, Target: "/other"}
	for _, writable := range []bool{true, false} { // false is the control
		spec := s.spec(sandbox.RoleAgent)
		bind.Writable = writable
		spec.Mounts = []sandbox.Mount{layer, bind}
		c, err := s.engine.Create(testContext(t), spec, sandbox.Streams{})
		if err == nil {
			remove(t, c)
		}
		var refused *sandbox.RefusedError
		if got := errors.As(err, &refused) && refused.Remedy != ""; got != writable {
			t.Errorf("a layer beside a mount that is writable (%v): %v", writable, err)
		}
	}
	spec := s.spec(sandbox.RoleServe)
	spec.Runtime, spec.Network = s.f.Runtime, sandbox.NetworkHost
	c, err := s.engine.Create(testContext(t), spec, sandbox.Streams{})
	if err == nil {
		remove(t, c)
	}
	var refused *sandbox.RefusedError
	if !errors.As(err, &refused) {
		t.Errorf("the host's network: %v", err)
	}
}
