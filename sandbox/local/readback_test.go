package local

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

// A runtime that gives less than it was told, in one thing at a time: the
// container is refused for that thing, and nothing is left of it.
func TestRuntimeThatGivesLess(t *testing.T) {
	h := newHarness(t)
	t.Setenv("PROCTOR_TEST_RUNC", h.engine.cfg.Runc)
	dir := h.owned("p")
	liar := *h
	e, err := New(Config{Home: h.engine.cfg.Home, State: h.engine.cfg.State, Runc: os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	liar.engine = e
	// The version is asked of the real one: the liar's first argument says what to do.
	info, err := h.engine.Probe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	e.versions["runc"] = info
	t.Setenv(roleVariable, "lying-runc")
	for lie := range lies() {
		t.Run(lie, func(t *testing.T) {
			t.Setenv("PROCTOR_TEST_LIE", lie)
			spec := liar.spec("exit", "0")
			spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: dir, Target: "/p", NoExec: true})
			c, err := e.Create(t.Context(), spec, sandbox.Streams{})
			if lie == "nothing" { // the control
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Remove(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				_ = c.Remove(t.Context())
				t.Fatal("not noticed")
			}
			var refused *sandbox.RefusedError
			if !errors.As(err, &refused) || len(refused.Problems) == 0 {
				t.Fatalf("error is %v, want a refusal", err)
			}
			t.Log(strings.Join(refused.Problems, "; "))
			liar.nothingLeft(spec)
		})
	}
}
