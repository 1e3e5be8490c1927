package product_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	nobody   = 54321
	childDir = "PRODUCT_TEST_CHILD_DIR"
)

// asNobody runs f as an unprivileged user: root runs this test again as a child
// with another user id, everybody else runs f itself.
func asNobody(t *testing.T, f func(t *testing.T, dir string)) {
	t.Helper()
	if dir := os.Getenv(childDir); dir != "" {
		f(t, dir)
		return
	}
	if os.Getuid() != 0 {
		f(t, t.TempDir())
		return
	}
	dir, err := os.MkdirTemp("", "product-child-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	// A copy of the test binary, in a place that the child may search.
	exe, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "test"), exe, 0o755))
	work := filepath.Join(dir, "work")
	must(t, os.Mkdir(work, 0o755))
	must(t, os.Chown(work, nobody, nobody))
	cmd := exec.Command(filepath.Join(dir, "test"), "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Dir = work
	cmd.Env = []string{childDir + "=" + work, "TMPDIR=" + work}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as an unprivileged user: %v\n%s", err, out)
	}
}
