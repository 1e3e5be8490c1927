package product_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/product"
	"golang.org/x/sys/unix"
)

func TestStageCopiesWhatWalkSees(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	big := strings.Repeat("0123456789abcdef", 100_000)
	sparse := strings.Repeat("\x00", 700_000) + "end" + strings.Repeat("\x00", 600_000)
	put(t, src, map[string]string{"a/b/c": "deep", "big": big, "sparse": sparse, "empty": "", "ro/f": "x", "suid": "s", "zero": strings.Repeat("\x00", 4096)})
	must(t, os.Symlink("../nowhere", filepath.Join(src, "link")))
	must(t, os.Link(filepath.Join(src, "big"), filepath.Join(src, "big2")))
	must(t, os.Chmod(filepath.Join(src, "ro"), 0o555))
	t.Cleanup(func() { os.Chmod(filepath.Join(src, "ro"), 0o755); os.Chmod(filepath.Join(dst, "ro"), 0o755) })
	must(t, os.Chmod(filepath.Join(src, "suid"), 0o6755|os.ModeSetuid|os.ModeSetgid))
	old := time.Unix(1_000_000, 5000)
	must(t, os.Chtimes(filepath.Join(src, "a/b/c"), old, old))
	must(t, os.Chtimes(filepath.Join(src, "a"), old, old))
	must(t, os.Chmod(src, 0o750))

	c, err := stageTo(t, src, dst, product.StageOptions{})
	must(t, err)
	again := walk(t, dst, product.WalkOptions{})
	if !slices.Equal(c.entries, again.entries) || len(again.facts) != 0 {
		t.Errorf("stream of the copy differs: %v %v", names(c.entries), again.facts)
	}
	if e := c.entry(t, "suid"); e.Mode != 0o755 {
		t.Errorf("mode %o", e.Mode)
	}
	for _, name := range []string{"a/b/c", "a"} {
		if fi, err := os.Stat(filepath.Join(dst, name)); err != nil || !fi.ModTime().Equal(old) {
			t.Errorf("%s: time %v %v", name, fi.ModTime(), err)
		}
	}
	if fi, _ := os.Stat(dst); fi.Mode().Perm() != 0o750 {
		t.Errorf("root's mode %v", fi.Mode())
	}
	if got, _ := os.ReadFile(filepath.Join(dst, "sparse")); string(got) != sparse {
		t.Error("sparse file differs")
	}
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(dst, "sparse"), &st))
	if st.Blocks*512 >= st.Size {
		t.Errorf("holes were written: %d blocks", st.Blocks)
	}
	must(t, unix.Stat(filepath.Join(dst, "big"), &st))
	if st.Nlink != 1 {
		t.Error("hard link kept")
	}
}

func TestStageGivesTheCopyAway(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	src, dst := t.TempDir(), t.TempDir()
	put(t, src, map[string]string{"a/b": "x"})
	must(t, os.Symlink("b", filepath.Join(src, "a/l")))
	_, err := stageTo(t, src, dst, product.StageOptions{Owner: &product.Owner{UID: 12345, GID: 23456}})
	must(t, err)
	for _, name := range []string{".", "a", "a/b", "a/l"} {
		fi, err := os.Lstat(filepath.Join(dst, name))
		must(t, err)
		if st := fi.Sys().(*syscall.Stat_t); st.Uid != 12345 || st.Gid != 23456 {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
	}
}

func TestCaseB5SpecialFilesStayOut(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	put(t, src, map[string]string{"kept": "x", "secrets/key": "k", "mnt/": ""})
	must(t, unix.Mkfifo(filepath.Join(src, "fifo"), 0o644))
	must(t, unix.Mknod(filepath.Join(src, "sock"), unix.S_IFSOCK|0o600, 0))
	want := []string{"fifo", "secrets", "sock"}
	if os.Getuid() == 0 {
		must(t, unix.Mknod(filepath.Join(src, "dev"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		must(t, unix.Mount("tmpfs", filepath.Join(src, "mnt"), "tmpfs", 0, ""))
		t.Cleanup(func() { unix.Unmount(filepath.Join(src, "mnt"), unix.MNT_DETACH) })
		put(t, src, map[string]string{"mnt/inside": "foreign", "file": ""})
		must(t, unix.Mount(filepath.Join(src, "kept"), filepath.Join(src, "file"), "", unix.MS_BIND, ""))
		t.Cleanup(func() { unix.Unmount(filepath.Join(src, "file"), unix.MNT_DETACH) })
		want = []string{"dev", "fifo", "file", "mnt", "secrets", "sock"}
	}
	c, err := stageTo(t, src, dst, product.StageOptions{Exclude: func(p string) bool { return p == "secrets" }})
	must(t, err)
	var left []string
	for _, f := range c.facts {
		if f.Kind != product.FactLeftOut || f.Detail == "" {
			t.Errorf("fact %+v", f)
		}
		left = append(left, f.Path)
	}
	if !slices.Equal(left, want) {
		t.Errorf("left out %q, want %q", left, want)
	}
	if got := names(walk(t, dst, product.WalkOptions{}).entries); got != names(c.entries) || !strings.Contains(got, "kept ") {
		t.Errorf("copied %q, said %q", got, names(c.entries))
	}
	// The audit of a tree with a mount in it is not complete.
	if os.Getuid() == 0 {
		if _, sum := stream(t, src); sum.Complete {
			t.Error("a walk over a mount point is complete")
		}
	}
}

// churn appends to a file until stop is closed.
func churn(t *testing.T, path string, stop <-chan struct{}) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
			if i%10_000_000 == 0 {
				f.Truncate(8 << 20)
			}
			f.Write([]byte{'x'})
		}
	}
}

func TestCaseB5FileThatChangesIsNamed(t *testing.T) {
	src := t.TempDir()
	put(t, src, map[string]string{"busy": "x", "quiet": "y"})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { defer close(stopped); churn(t, filepath.Join(src, "busy"), stop) }()
	defer func() { close(stop); <-stopped }()
	for range 100 {
		dst := t.TempDir()
		c, err := stageTo(t, src, dst, product.StageOptions{})
		must(t, err)
		c.entry(t, "quiet")
		if c.has("busy") {
			continue // it held still for once
		}
		if k := c.kinds("busy"); len(k) != 1 || k[0] != product.FactLeftOut {
			t.Errorf("facts %v", c.facts)
		}
		if _, err := os.Lstat(filepath.Join(dst, "busy")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("half a copy stays: %v", err)
		}
		return
	}
	t.Error("the file was never seen to change")
}

func TestCaseB12StageReadsNothingOutside(t *testing.T) {
	src, outside := t.TempDir(), t.TempDir()
	canary := "canary-" + t.Name()
	put(t, outside, map[string]string{"f": canary, "sub/f": canary})
	put(t, src, map[string]string{"real/f": "inside", "real/sub/f": "inside"})
	must(t, os.Rename(filepath.Join(src, "real"), filepath.Join(src, "d")))
	must(t, os.Symlink(outside, filepath.Join(src, "lure")))
	d, lure := filepath.Join(src, "d"), filepath.Join(src, "lure")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, lure, unix.RENAME_EXCHANGE)
			}
		}
	}()
	naive, swapped := false, 0
	bad := sha256.Sum256([]byte(canary))
	for i := range 400 {
		dst := filepath.Join(t.TempDir(), "copy")
		must(t, os.Mkdir(dst, 0o700))
		c, err := stageTo(t, src, dst, product.StageOptions{})
		must(t, err)
		for _, e := range c.entries {
			if e.SHA256 == bad {
				t.Fatalf("run %d: %q was read from outside", i, e.Path)
			}
		}
		swapped += len(c.facts)
		// Positive control: a copy by path falls for it.
		if b, err := os.ReadFile(filepath.Join(d, "f")); err == nil && string(b) == canary {
			naive = true
		}
	}
	close(stop)
	<-stopped
	if !naive {
		t.Error("the attack never worked against a reader by path")
	}
	t.Logf("%d times something changed under the copy", swapped)
}

func TestStageRefusesWhatItCannotRead(t *testing.T) {
	asNobody(t, func(t *testing.T, dir string) {
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		put(t, src, map[string]string{"open": "x", "shut": "y", "closed/f": "z"})
		must(t, os.Mkdir(dst, 0o700))
		must(t, os.Chmod(filepath.Join(src, "shut"), 0))
		must(t, os.Chmod(filepath.Join(src, "closed"), 0))
		_, err := stageTo(t, src, dst, product.StageOptions{})
		if !errors.Is(err, product.ErrStage) || !strings.Contains(err.Error(), `"shut"`) || !strings.Contains(err.Error(), `"closed"`) {
			t.Errorf("error %v", err)
		}
		must(t, os.Chmod(filepath.Join(src, "shut"), 0o600))
		must(t, os.Chmod(filepath.Join(src, "closed"), 0o700))
		must(t, os.Mkdir(dst+"2", 0o700))
		if _, err = stageTo(t, src, dst+"2", product.StageOptions{}); err != nil {
			t.Errorf("positive control: %v", err)
		}
	})
}

func TestCaseA8UnreadableHasNoDigest(t *testing.T) {
	asNobody(t, func(t *testing.T, dir string) {
		put(t, dir, map[string]string{"open": "x", "shut": "y", "closed/f": "z", "listed/f": "v"})
		for name, mode := range map[string]os.FileMode{"shut": 0, "closed": 0, "listed": 0o400} {
			must(t, os.Chmod(filepath.Join(dir, name), mode))
		}
		c := walk(t, dir, product.WalkOptions{})
		for _, name := range []string{"shut", "closed", "listed/f"} {
			if k := c.kinds(name); len(k) != 1 || k[0] != product.FactUnreadable {
				t.Errorf("%s: facts %v", name, k)
			}
		}
		if e := c.entry(t, "shut"); e.Type != product.TypeFile || e.Size != 1 || e.SHA256 != ([32]byte{}) {
			t.Errorf("%+v", e)
		}
		if _, sum := stream(t, dir); sum.Complete || sum.Tree != "" || sum.Worktree != "" || sum.GitExec != "" {
			t.Errorf("%+v", sum)
		}
		must(t, os.Chmod(filepath.Join(dir, "shut"), 0o600))
		must(t, os.Chmod(filepath.Join(dir, "closed"), 0o700))
		must(t, os.Chmod(filepath.Join(dir, "listed"), 0o700))
		if _, sum := stream(t, dir); !sum.Complete || len(sum.Tree) != 64 {
			t.Errorf("positive control: %+v", sum)
		}
	})
}

func TestStageIntoAFilledDirectory(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	put(t, src, map[string]string{"a": "x"})
	put(t, dst, map[string]string{"b": "x"})
	if _, err := stageTo(t, src, dst, product.StageOptions{}); err == nil {
		t.Error("accepted")
	}
}

type failingSink struct{ n int }

func (f *failingSink) Entry(product.Entry) error {
	if f.n--; f.n < 0 {
		return os.ErrClosed
	}
	return nil
}
func (f *failingSink) Fact(product.Fact) error { return nil }

func TestWalkEndsWhenTheSinkFails(t *testing.T) {
	dir := t.TempDir()
	for i := range 500 {
		put(t, dir, map[string]string{string(rune('a'+i%26)) + "/" + strings.Repeat("x", i%50+1): "x"})
	}
	err := product.Walk(context.Background(), openDir(t, dir), product.WalkOptions{}, &failingSink{n: 20})
	if !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err = product.Walk(ctx, openDir(t, dir), product.WalkOptions{}, &collector{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// A directory far up is moved outside while the walk is far below it: its ".."
// is another directory then, with a file of the name that is next in the list.
func TestCaseB12DirectoryMovedOutsideWhileBelow(t *testing.T) {
	src, outside, dst := t.TempDir(), t.TempDir(), t.TempDir()
	deepTree(t, src, "d", 60)
	five := strings.Repeat("d/", 5)
	put(t, src, map[string]string{five + "zz": "inside", "zz": "inside"})
	put(t, outside, map[string]string{"zz": "canary"})
	moved := false
	c, err := stageTo(t, src, dst, product.StageOptions{Exclude: func(path string) bool {
		if base := filepath.Base(path); base == "leaf" && !moved {
			moved = true
			must(t, os.Rename(filepath.Join(src, five, "d"), filepath.Join(outside, "d")))
		}
		return false
	}})
	must(t, err)
	for _, e := range c.entries {
		if e.SHA256 == sha256.Sum256([]byte("canary")) {
			t.Errorf("%q was read from outside", e.Path)
		}
	}
	if !moved || len(c.facts) == 0 {
		t.Errorf("moved %v, facts %v", moved, c.facts)
	}
}
