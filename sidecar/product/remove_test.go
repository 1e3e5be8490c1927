package product_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sidecar/product"
)

// TestRemoveAll: whatever an identity made, it can remove again: closed
// directories, a depth beyond every limit of descriptors, links that lead away.
func TestRemoveAll(t *testing.T) {
	asNobody(t, func(t *testing.T, dir string) {
		const depth = 6000
		outside := filepath.Join(dir, "outside")
		must(t, os.Mkdir(outside, 0o755))
		put(t, outside, map[string]string{"kept": "x"})
		stage := filepath.Join(dir, "stage")
		must(t, os.MkdirAll(filepath.Join(stage, "1", "closed"), 0o755))
		put(t, stage, map[string]string{"1/closed/f": "x", "2": "a file of the name that a directory would get"})
		must(t, os.Symlink(outside, filepath.Join(stage, "link")))
		must(t, os.Symlink(outside, filepath.Join(stage, "1", "closed", "link")))
		must(t, os.Chmod(filepath.Join(stage, "1", "closed"), 0))
		must(t, os.Chmod(filepath.Join(stage, "1"), 0))
		at, err := unix.Open(stage, unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		for range depth {
			must(t, unix.Mkdirat(at, "d", 0o700))
			next, err := unix.Openat(at, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
			must(t, err)
			must(t, unix.Close(at))
			at = next
		}
		must(t, unix.Mkdirat(at, "bottom", 0))
		must(t, unix.Close(at))
		root, err := os.OpenRoot(dir)
		must(t, err)
		defer func() { _ = root.Close() }()
		start := time.Now()
		must(t, product.RemoveAll(root, "stage"))
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("took %s", took)
		}
		if _, err := os.Lstat(stage); !os.IsNotExist(err) {
			t.Errorf("it is there: %v", err)
		}
		if b, err := os.ReadFile(filepath.Join(outside, "kept")); err != nil || string(b) != "x" {
			t.Errorf("outside: %q, %v", b, err)
		}
		must(t, product.RemoveAll(root, "stage"))
		// What is not its own stays, and is said.
		if err := product.RemoveAll(root, "../x"); err == nil {
			t.Error("it left the root")
		}
	})
}
