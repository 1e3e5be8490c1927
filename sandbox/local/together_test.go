package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/proctor-project/proctor/sandbox/cgroup"
)

// TestRemovalLeavesWhatAnotherContainerNeeds ends one container of a session
// while another is being made: the session's cgroup, which the runtime is about
// to make the other one's in, stays until that one is gone, too.
func TestRemovalLeavesWhatAnotherContainerNeeds(t *testing.T) {
	h := newHarness(t)
	spec := h.spec("exit", "0")
	made, err := h.engine.makeBundle(spec)
	if err != nil {
		t.Fatal(err)
	}
	group := cgroup.ControllerDir("pids", cgroup.Session(spec.Session))
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	h.engine.removeIfEmpty(spec.Session, "")
	for _, dir := range []string{group, filepath.Dir(made.dir)} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("removed under a container that is being made: %v", err)
		}
	}
	if err := h.engine.removeBundle(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	h.nothingLeft(spec)
}
