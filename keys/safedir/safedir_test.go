package safedir_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys/safedir"
)

func dir(t *testing.T) string {
	t.Helper()
	d := filepath.Join(t.TempDir(), "keys")
	must(t, os.Mkdir(d, 0o700))
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestT10K1Directory(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, d string)
		safe  bool
	}{
		"positive control":          {func(*testing.T, string) {}, true},
		"sticky parent":             {func(t *testing.T, d string) { must(t, os.Chmod(filepath.Dir(d), 0o777|os.ModeSticky)) }, true},
		"parent writable by others": {func(t *testing.T, d string) { must(t, os.Chmod(filepath.Dir(d), 0o707)) }, false},
		"grandparent writable":      {func(t *testing.T, d string) { must(t, os.Chmod(filepath.Dir(filepath.Dir(d)), 0o707)) }, false},
		"itself writable":           {func(t *testing.T, d string) { must(t, os.Chmod(d, 0o702)) }, false},
		"itself sticky and writable": {func(t *testing.T, d string) {
			must(t, os.Chmod(d, 0o777|os.ModeSticky))
		}, false},
		"a file":   {func(t *testing.T, d string) { must(t, os.Remove(d)); must(t, os.WriteFile(d, nil, 0o600)) }, false},
		"missing":  {func(t *testing.T, d string) { must(t, os.Remove(d)) }, false},
		"own link": {func(t *testing.T, d string) { must(t, os.Rename(d, d+"2")); must(t, os.Symlink("keys2", d)) }, true},
		"link loop": {func(t *testing.T, d string) {
			must(t, os.Remove(d))
			must(t, os.Symlink("keys", d))
		}, false},
		"foreign link": {func(t *testing.T, d string) {
			needRoot(t)
			must(t, os.Rename(d, d+"2"))
			must(t, os.Symlink("keys2", d))
			must(t, os.Lchown(d, 12345, 12345))
		}, false},
		"foreign owner":  {func(t *testing.T, d string) { needRoot(t); must(t, os.Chown(d, 12345, 0)) }, false},
		"foreign parent": {func(t *testing.T, d string) { needRoot(t); must(t, os.Chown(filepath.Dir(d), 12345, 0)) }, false},
		"foreign group":  {func(t *testing.T, d string) { needRoot(t); must(t, os.Chown(d, 0, 12345)); must(t, os.Chmod(d, 0o770)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := dir(t)
			c.spoil(t, d)
			got, err := safedir.Open(d, safedir.Rules{})
			if err == nil {
				must(t, got.Close())
				must(t, got.Close())
			}
			if (err == nil) != c.safe {
				t.Fatalf("error %v", err)
			}
		})
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("another owner needs root")
	}
}

func TestT10MountRoot(t *testing.T) {
	d := dir(t)
	for _, place := range []safedir.Place{safedir.Mount, safedir.SecretMount} {
		if _, err := safedir.Open(d, safedir.Rules{Place: place}); !errors.Is(err, safedir.ErrUnsafe) {
			t.Fatalf("place %d: a directory that is no mount: %v", place, err)
		}
	}
	needRoot(t)
	must(t, os.Chmod(filepath.Dir(d), 0o777))
	if err := unix.Mount("proctor-test", d, "tmpfs", 0, "mode=1777,size=1m"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(d, unix.MNT_DETACH) })
	if _, err := safedir.Open(d, safedir.Rules{}); !errors.Is(err, safedir.ErrUnsafe) {
		t.Fatalf("as a host directory: %v", err)
	}
	m, err := safedir.Open(d, safedir.Rules{Place: safedir.Mount})
	must(t, err)
	defer m.Close()
	must(t, m.CreateFile("x", []byte("y")))
	if _, err := safedir.Open(d, safedir.Rules{Place: safedir.SecretMount}); !errors.Is(err, safedir.ErrUnsafe) {
		t.Fatalf("a writable secret: %v", err)
	}
	testSecret(t, d)
}

// testSecret lays a mount out as the kubelet does.
func testSecret(t *testing.T, d string) {
	must(t, os.Mkdir(filepath.Join(d, "..2026"), 0o755))
	must(t, os.Symlink("..2026", filepath.Join(d, "..data")))
	must(t, os.Symlink("..data/key", filepath.Join(d, "key")))
	must(t, os.Symlink("/etc/hostname", filepath.Join(d, "outside")))
	must(t, os.WriteFile(filepath.Join(d, "..2026", "key"), []byte("k"), 0o440))
	must(t, os.WriteFile(filepath.Join(d, "open"), []byte("k"), 0o444))
	must(t, unix.Mount("", d, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	s, err := safedir.Open(d, safedir.Rules{Place: safedir.SecretMount})
	must(t, err)
	defer s.Close()
	if b, err := s.ReadFile("key", 10); err != nil || string(b) != "k" {
		t.Fatalf("%q %v", b, err)
	}
	for _, name := range []string{"outside", "open"} {
		if _, err := s.ReadFile(name, 10); !errors.Is(err, safedir.ErrUnsafe) {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestK1Files(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, f string)
		safe  bool
	}{
		"positive control": {func(*testing.T, string) {}, true},
		"read-only":        {func(t *testing.T, f string) { must(t, os.Chmod(f, 0o400)) }, true},
		"0644":             {func(t *testing.T, f string) { must(t, os.Chmod(f, 0o644)) }, false},
		"0640":             {func(t *testing.T, f string) { must(t, os.Chmod(f, 0o640)) }, false},
		"symlink":          {func(t *testing.T, f string) { must(t, os.Rename(f, f+"2")); must(t, os.Symlink("f2", f)) }, false},
		"hard link":        {func(t *testing.T, f string) { must(t, os.Link(f, f+"2")) }, false},
		"FIFO":             {func(t *testing.T, f string) { must(t, os.Remove(f)); must(t, unix.Mkfifo(f, 0o600)) }, false},
		"directory":        {func(t *testing.T, f string) { must(t, os.Remove(f)); must(t, os.Mkdir(f, 0o600)) }, false},
		"link loop":        {func(t *testing.T, f string) { must(t, os.Remove(f)); must(t, os.Symlink("f", f)) }, false},
		"foreign owner":    {func(t *testing.T, f string) { needRoot(t); must(t, os.Chown(f, 12345, 0)) }, false},
		"too large":        {func(t *testing.T, f string) { must(t, os.WriteFile(f, make([]byte, 101), 0o600)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := dir(t)
			f := filepath.Join(d, "f")
			must(t, os.WriteFile(f, make([]byte, 100), 0o600))
			c.spoil(t, f)
			s, err := safedir.Open(d, safedir.Rules{})
			must(t, err)
			defer s.Close()
			if _, err := s.ReadFile("f", 100); (err == nil) != c.safe {
				t.Fatalf("error %v", err)
			}
		})
	}
	d, err := safedir.Open(dir(t), safedir.Rules{})
	must(t, err)
	for _, name := range []string{"", ".", "..", "../keys", "a/b", "a\x00"} {
		if _, err := d.OpenFile(name, unix.O_RDWR|unix.O_CREAT); err == nil {
			t.Errorf("name %q opened", name)
		}
	}
	if _, err := d.ReadFile("absent", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("absent: %v", err)
	}
}

func TestT7MakeWhateverTheUmask(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o777} {
		base := t.TempDir()
		old := unix.Umask(mask)
		err := safedir.Make(filepath.Join(base, "a", "b", "c"))
		d, err2 := safedir.Open(filepath.Join(base, "a", "b", "c"), safedir.Rules{})
		var err3 error
		if err2 == nil {
			err3 = d.CreateFile("f", nil)
			unlock, err := d.Lock(context.Background(), "lock")
			must(t, err)
			unlock()
		}
		unix.Umask(old)
		must(t, errors.Join(err, err2, err3))
		for name, want := range map[string]fs.FileMode{"a": 0o700, "a/b": 0o700, "a/b/c": 0o700, "a/b/c/f": 0o600, "a/b/c/lock": 0o600} {
			st, err := os.Stat(filepath.Join(base, name))
			must(t, err)
			if st.Mode().Perm() != want {
				t.Errorf("umask %04o: %s is %04o", mask, name, st.Mode().Perm())
			}
		}
		must(t, os.Chmod(filepath.Join(base, "a"), 0o750))
		must(t, safedir.Make(filepath.Join(base, "a", "x")))
		if st, _ := os.Stat(filepath.Join(base, "a")); st.Mode().Perm() != 0o750 {
			t.Errorf("an existing directory became %04o", st.Mode().Perm())
		}
	}
	base := t.TempDir()
	must(t, os.Chmod(base, 0o777))
	if err := safedir.Make(filepath.Join(base, "a")); !errors.Is(err, safedir.ErrUnsafe) {
		t.Fatalf("in a directory that others write: %v", err)
	}
}

func TestCreateAndReplace(t *testing.T) {
	path := dir(t)
	d, err := safedir.Open(path, safedir.Rules{})
	must(t, err)
	must(t, d.CreateFile("f", []byte("1")))
	if err := d.CreateFile("f", []byte("2")); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("got %v", err)
	}
	if b, _ := d.ReadFile("f", 9); string(b) != "1" {
		t.Fatalf("now %q", b)
	}
	must(t, d.ReplaceFile("f", []byte("3")))
	if b, _ := d.ReadFile("f", 9); string(b) != "3" {
		t.Fatalf("now %q", b)
	}
	names, err := d.Names()
	if err != nil || strings.Join(names, " ") != "f" {
		t.Fatalf("left behind: %v %v", names, err)
	}
}

func TestLockIsExclusiveAndEndsWithTheContext(t *testing.T) {
	d, err := safedir.Open(dir(t), safedir.Rules{})
	must(t, err)
	unlock, err := d.Lock(context.Background(), "lock")
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := d.Lock(ctx, "lock"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("second lock: %v", err)
	}
	unlock()
	unlock, err = d.Lock(context.Background(), "lock")
	must(t, err)
	unlock()
}
