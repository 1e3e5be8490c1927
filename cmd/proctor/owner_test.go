package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/programs"
)

// TestProductOfAnotherOwner (case B12, design §3): a root launcher copies and
// applies as the product's owner. What it replaces keeps its owner; a group that
// the owner cannot give away becomes the owner's.
func TestProductOfAnotherOwner(t *testing.T) {
	need.Root(t)
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

// TestUmask: a session under an account whose umask leaves others nothing.
func TestUmask(t *testing.T) {
	d := newDesk(t)
	for _, args := range [][]string{{"init", "--home", "private"}, {"run", "--home", "private", "--product", "site", "--", "sh", "-c", "echo more >> a.txt"}} {
		cmd := d.proctor(args...)
		cmd.Args = append([]string{"sh", "-c", `umask 077; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	for _, problem := range programs.Left(d.dir, sessionsOf(filepath.Join(d.dir, "private"))) {
		t.Error("left behind: " + problem)
	}
}
