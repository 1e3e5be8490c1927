package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestProductOfAnotherOwner (case B12, design §3): a root launcher copies and
// applies as the product's owner. What it replaces keeps its owner; a group that
// the owner cannot give away becomes the owner's.
func TestProductOfAnotherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a product away")
	}
	d := newDesk(t)
	const owner, other = 54321, 54322
	site := filepath.Join(d.dir, "site")
	err := filepath.WalkDir(site, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, owner, owner)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(filepath.Join(site, "a.txt"), owner, other); err != nil {
		t.Fatal(err)
	}
	if out, err := d.run(`echo more >> a.txt; echo new > sub/new.txt`, "--apply").CombinedOutput(); err != nil {
		t.Fatalf("run: %v: %s", err, out)
	}
	for name, want := range map[string]string{"a.txt": "one\nmore\n", "sub/new.txt": "new\n"} {
		path := filepath.Join(site, name)
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q (%v), want %q", name, got, err, want)
		}
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != owner || st.Gid != owner {
			t.Errorf("%s belongs to %d:%d, want %d:%[4]d", name, st.Uid, st.Gid, owner)
		}
	}

	// A copy that fails half-way is the owner's, and not left behind either.
	if err := os.WriteFile(filepath.Join(site, "sub", "root-only"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := d.run("true").CombinedOutput(); err == nil {
		t.Fatalf("a file that the owner cannot read was copied: %s", out)
	}
	stages, err := os.ReadDir(filepath.Join(d.dir, "home", "host", "stages"))
	if err != nil || len(stages) != 1 {
		t.Errorf("stages left behind: %v (%v), want the applied session's only", stages, err)
	}
}
