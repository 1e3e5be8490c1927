package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/kernel"
)

// nothingLeft fails if the host has a trace of the session: a file, a mount, a
// cgroup or a process.
func (h *harness) nothingLeft(spec sandbox.Spec) {
	h.Helper()
	if _, err := os.Lstat(h.engine.sessionDir(spec.Session)); !errors.Is(err, fs.ErrNotExist) {
		_ = filepath.WalkDir(h.engine.sessionDir(spec.Session), func(p string, _ fs.DirEntry, _ error) error { h.Log(p); return nil })
		h.Errorf("the session's directory is left: %v", err)
	}
	mounts, err := kernel.Mounts(os.Getpid())
	if err != nil {
		h.Fatal(err)
	}
	for _, m := range mounts {
		if strings.Contains(m.Point, spec.Session) || strings.Contains(m.Root, spec.Session) {
			h.Errorf("a mount is left: %+v", m)
		}
	}
	dirs, err := cgroup.Dirs("/proctor/" + spec.Session)
	if err != nil || len(dirs) > 0 {
		h.Errorf("cgroups are left: %v, %v", dirs, err)
	}
	pids, err := kernel.Processes()
	if err != nil {
		h.Fatal(err)
	}
	for _, pid := range pids {
		inside, err := kernel.Mounts(pid)
		if err != nil {
			continue
		}
		for _, m := range inside {
			if strings.Contains(m.Root, spec.Session) {
				h.Errorf("process %d is left: %s", pid, kernel.Describe(pid, m.Point))
				break
			}
		}
	}
}
