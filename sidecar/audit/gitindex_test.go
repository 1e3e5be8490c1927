package audit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/audit"
)

func TestCaseB12IndexStatFieldsOnly(t *testing.T) {
	for _, c := range []struct{ name, version, format string }{{"v2", "2", "sha1"}, {"v3", "3", "sha1"}, {"v4", "4", "sha1"}, {"v4 sha256", "4", "sha256"}, {"v2 sha256", "2", "sha256"}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			git(t, dir, "init", "-q", "--object-format="+c.format)
			files := map[string]string{"a/long/path/one.txt": "1", "a/long/path/two.txt": "2", "b": "3", "c.sh": "4"}
			write(t, dir, files)
			git(t, dir, "add", ".")
			git(t, dir, "commit", "-q", "-m", "x")
			write(t, dir, map[string]string{"intent": "x"})
			git(t, dir, "update-index", "--index-version", c.version)
			if c.version != "2" {
				git(t, dir, "add", "-N", "intent") // needs version 3
			}
			index := filepath.Join(dir, ".git/index")
			read := func() []byte {
				b, err := os.ReadFile(index)
				must(t, err)
				return b
			}
			before := read()
			if _, err := audit.IndexDigest(before); err != nil {
				t.Fatal(err)
			}
			if c.version != "3" && before[7] != c.version[0]-'0' {
				t.Errorf("version %d", before[7])
			}
			old := time.Unix(1_000_000, 0)
			for name := range files {
				must(t, os.Chtimes(filepath.Join(dir, name), old, old))
			}
			git(t, dir, "status")
			after := read()
			if bytes.Equal(before, after) {
				t.Fatal("status did not rewrite the index")
			}
			if !sameIndex(before, after) {
				t.Error("stat fields count")
			}
			for name, change := range map[string]func(){
				"content":       func() { write(t, dir, map[string]string{"b": "other"}); git(t, dir, "add", "b") },
				"mode":          func() { must(t, os.Chmod(filepath.Join(dir, "c.sh"), 0o755)); git(t, dir, "add", "c.sh") },
				"removed":       func() { git(t, dir, "rm", "-q", "--cached", "a/long/path/two.txt") },
				"assume":        func() { git(t, dir, "update-index", "--assume-unchanged", "a/long/path/one.txt") },
				"skip-worktree": func() { git(t, dir, "update-index", "--skip-worktree", "a/long/path/one.txt") },
			} {
				was := read()
				change()
				if sameIndex(was, read()) {
					t.Errorf("%s: equal", name)
				}
			}
			bad := bytes.Clone(after)
			bad[len(bad)/2] ^= 1
			if _, err := audit.IndexDigest(bad); err == nil {
				t.Error("a broken checksum is accepted")
			}
		})
	}
	if sameIndex([]byte("x"), []byte("y")) || !sameIndex([]byte("x"), []byte("x")) {
		t.Error("what is no index is compared by its bytes")
	}
}

// sameIndex is how apply compares two git indexes.
func sameIndex(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := audit.IndexDigest(a)
	y, errY := audit.IndexDigest(b)
	return errX == nil && errY == nil && x == y
}
