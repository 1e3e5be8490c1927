package local

import (
	"testing"
)

func TestRun(t *testing.T) {
	h := newHarness(t)
	spec := h.spec("cat", "/proc/self/status", "--", "cat", "/proc/self/mountinfo", "--", "exit", "7")
	exit, out := h.run(spec)
	if exit.Code != 7 || exit.Signal != 0 || exit.OOM {
		t.Errorf("exit is %+v, want 7", exit)
	}
	t.Log(out)
}
