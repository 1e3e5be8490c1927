package product_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/proctor-project/proctor/sidecar/product"
)

// A root launcher stages in a user namespace that has the product owner's ids
// and the leased block's, and nothing else: files of others stay unreadable, and
// the copy belongs to the block.
func TestCaseB12StageInAUserNamespace(t *testing.T) {
	const owner, block = 54321, 165536
	if dir := os.Getenv("PRODUCT_TEST_USERNS"); dir != "" {
		_, err := stageTo(t, filepath.Join(dir, "src"), filepath.Join(dir, "dst"), product.StageOptions{Owner: &product.Owner{UID: 1, GID: 1}})
		must(t, err)
		_, err = stageTo(t, filepath.Join(dir, "foreign"), filepath.Join(dir, "dst2"), product.StageOptions{})
		if !errors.Is(err, product.ErrStage) || !strings.Contains(err.Error(), `"root-only"`) {
			t.Errorf("a file of another owner: %v", err)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root to map ids")
	}
	dir, err := os.MkdirTemp("", "product-userns-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	put(t, dir, map[string]string{"src/sub/f": "x", "src/private": "y", "dst/": "", "dst2/": "", "foreign/root-only": "z"})
	must(t, os.Symlink("f", filepath.Join(dir, "src/sub/l")))
	must(t, os.Chmod(filepath.Join(dir, "src/private"), 0o600))
	must(t, os.Chmod(filepath.Join(dir, "src/sub"), 0o700))
	must(t, filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Lchown(path, owner, owner))
	}))
	must(t, os.Chown(filepath.Join(dir, "foreign/root-only"), 0, 0))
	must(t, os.Chmod(filepath.Join(dir, "foreign/root-only"), 0o600))
	exe, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "test"), exe, 0o755))

	cmd := exec.Command(filepath.Join(dir, "test"), "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Dir = dir
	cmd.Env = []string{"PRODUCT_TEST_USERNS=" + dir, "TMPDIR=" + dir}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: owner, Size: 1}, {ContainerID: 1, HostID: block, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids,
		Credential: &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true},
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("in the user namespace: %v\n%s", err, out)
	}
	for _, name := range []string{".", "sub", "sub/f", "sub/l", "private"} {
		fi, err := os.Lstat(filepath.Join(dir, "dst", name))
		must(t, err)
		if st := fi.Sys().(*syscall.Stat_t); st.Uid != block || st.Gid != block {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
	}
}
