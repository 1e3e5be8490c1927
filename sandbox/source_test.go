package sandbox

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestResolveSource(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, "keys")
	open := filepath.Join(dir, "open")
	for _, d := range []string{filepath.Join(closed, "root"), filepath.Join(open, "sub"), filepath.Join(dir, "keys-not")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(open, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(open, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	link := func(target string) string {
		path := filepath.Join(open, "link-"+filepath.Base(target))
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, bad := range []string{
		"/", "/proc", "/proc/self/root", "/sys/fs", "/dev/shm", "/etc", "/run", "/var/run", "/var/lib", "relative",
		filepath.Join(open, "sock"), filepath.Join(open, "missing"),
		closed, filepath.Join(closed, "root"), dir, link(closed), link(filepath.Join(closed, "root")), link("/etc"),
		filepath.Join(open, "..", "keys"),
	} {
		if got, err := ResolveSource(bad, closed); err == nil {
			t.Errorf("%q was resolved to %q", bad, got)
		}
	}
	for _, good := range []string{open, filepath.Join(open, "sub"), file, filepath.Join(dir, "keys-not"), link(filepath.Join(open, "sub"))} {
		got, err := ResolveSource(good, closed, filepath.Join(dir, "not", "there"))
		want, _ := filepath.EvalSymlinks(good)
		if err != nil || got != want {
			t.Errorf("%q was resolved to %q, %v", good, got, err)
		}
	}
	// The control: what makes the closed directory closed is its name in the list.
	if _, err := ResolveSource(closed); err != nil {
		t.Errorf("a directory that nothing forbids: %v", err)
	}
}

func TestWithin(t *testing.T) {
	for _, tc := range []struct {
		path, dir string
		want      bool
	}{
		{"/a", "/a", true}, {"/a/b", "/a", true}, {"/ab", "/a", false}, {"/", "/", true}, {"/a", "/", true}, {"/a", "/a/b", false},
	} {
		if got := Within(tc.path, tc.dir); got != tc.want {
			t.Errorf("Within(%q, %q) is %v", tc.path, tc.dir, got)
		}
	}
}
