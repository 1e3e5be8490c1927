package product_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/product"
	"golang.org/x/sys/unix"
)

func TestWalkOrderIsByteOrderOfPaths(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"a/x": "1", "a-b/y": "2", "a.c": "3", "a/x-y": "4", "b": "5", "a0": "6", "a!": "7"})
	c := walk(t, dir, product.WalkOptions{})
	if got := names(c.entries); got != "a a! a-b a-b/y a.c a/x a/x-y a0 b " {
		t.Errorf("order: %s", got)
	}
	if !slices.IsSortedFunc(c.entries, func(a, b product.Entry) int { return strings.Compare(a.Path, b.Path) }) {
		t.Error("not sorted")
	}
}

// The digest is computed here a second time, from doc.go's words alone.
func TestTreeDigestDefinition(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"d/f": "hello", ".git/config": "x"})
	must(t, os.Symlink("d/f", filepath.Join(dir, "l")))
	must(t, os.Chmod(filepath.Join(dir, "d/f"), 0o640))
	_, sum := stream(t, dir)

	record := func(h interface{ Write([]byte) (int, error) }, typ byte, mode uint32, content, path string) {
		var b []byte
		b = binary.BigEndian.AppendUint32(b, uint32(45+len(path)))
		b = append(b, typ)
		b = binary.BigEndian.AppendUint32(b, mode)
		b = binary.BigEndian.AppendUint64(b, uint64(len(content)))
		digest := sha256.Sum256([]byte(content))
		if typ == 'd' {
			digest = [32]byte{}
		}
		h.Write(append(append(b, digest[:]...), path...))
	}
	tree, worktree := sha256.New(), sha256.New()
	tree.Write([]byte("proctor tree v1\n"))
	worktree.Write([]byte("proctor tree v1\n"))
	record(tree, 'd', 0o755, "", ".git")
	record(tree, 'f', 0o644, "x", ".git/config")
	for _, h := range []interface{ Write([]byte) (int, error) }{tree, worktree} {
		record(h, 'd', 0o755, "", "d")
		record(h, 'f', 0o640, "hello", "d/f")
		record(h, 'l', 0o777, "d/f", "l")
	}
	if got, want := sum.Tree, hex.EncodeToString(tree.Sum(nil)); got != want {
		t.Errorf("tree %s, want %s", got, want)
	}
	if got, want := sum.Worktree, hex.EncodeToString(worktree.Sum(nil)); got != want {
		t.Errorf("worktree %s, want %s", got, want)
	}
}

func TestCaseA1LinksAreBytes(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside, map[string]string{"canary": "secret"})
	for name, target := range map[string]string{"out": outside, "proc": "/proc/self/root", "loop": "loop", "up": "..", "file": outside + "/canary"} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	put(t, dir, map[string]string{"plain/canary": "mine"})
	c := walk(t, dir, product.WalkOptions{})
	if len(c.entries) != 7 || len(c.facts) != 0 {
		t.Fatalf("entries %s facts %v", names(c.entries), c.facts)
	}
	if e := c.entry(t, "out"); e.Type != product.TypeSymlink || e.SHA256 != sha256.Sum256([]byte(outside)) {
		t.Errorf("link: %+v", e)
	}
	if e := c.entry(t, "plain/canary"); e.SHA256 != sha256.Sum256([]byte("mine")) {
		t.Errorf("positive control: %+v", e)
	}
}

func TestCaseA2SpecialFilesAreNeverOpened(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mkfifo(filepath.Join(dir, "package.json"), 0o644))
	must(t, unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0))
	put(t, dir, map[string]string{"real/package.json": "{}"})
	c := walk(t, dir, product.WalkOptions{})
	if e := c.entry(t, "package.json"); e.Type != product.TypeFIFO {
		t.Errorf("fifo: %+v", e)
	}
	if e := c.entry(t, "socket"); e.Type != product.TypeSocket {
		t.Errorf("socket: %+v", e)
	}
	if e := c.entry(t, "real/package.json"); e.Type != product.TypeFile || e.Size != 2 {
		t.Errorf("positive control: %+v", e)
	}
	if os.Getuid() == 0 {
		must(t, unix.Mknod(filepath.Join(dir, "null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		if e := walk(t, dir, product.WalkOptions{}).entry(t, "null"); e.Type != product.TypeChar || e.SHA256 != sha256.Sum256([]byte("1:3")) {
			t.Errorf("device: %+v", e)
		}
	}
}

func TestCaseA3Limits(t *testing.T) {
	t.Run("sparse terabyte", func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, map[string]string{"big": "", "small": "x"})
		must(t, os.Truncate(filepath.Join(dir, "big"), 1<<40))
		start := time.Now()
		c := walk(t, dir, product.WalkOptions{})
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		if k := c.kinds("big"); len(k) != 1 || k[0] != product.FactLimit {
			t.Errorf("facts %v", k)
		}
		if c.entry(t, "big").Size != 1<<40 || c.kinds("small") != nil {
			t.Error("entries")
		}
		if _, sum := stream(t, dir); sum.Complete || sum.Tree != "" {
			t.Errorf("a tree over the limit has a digest: %+v", sum)
		}
	})
	t.Run("many entries", func(t *testing.T) {
		dir := t.TempDir()
		for i := range 300 {
			put(t, dir, map[string]string{fmt.Sprintf("d%d/f%d", i%7, i): "x"})
		}
		c := walk(t, dir, product.WalkOptions{Limits: product.Limits{Entries: 100}})
		if len(c.entries) > 100 || len(c.facts) != 1 || c.facts[0].Kind != product.FactLimit {
			t.Errorf("%d entries, facts %v", len(c.entries), c.facts)
		}
		if c := walk(t, dir, product.WalkOptions{}); len(c.entries) != 307 || len(c.facts) != 0 {
			t.Errorf("positive control: %d entries, facts %v", len(c.entries), c.facts)
		}
	})
	t.Run("names in a directory", func(t *testing.T) {
		dir := t.TempDir()
		for i := range 300 {
			put(t, dir, map[string]string{fmt.Sprintf("d/%0200d", i): ""})
		}
		put(t, dir, map[string]string{"e": ""})
		c := walk(t, dir, product.WalkOptions{Limits: product.Limits{NameBytes: 30_000}})
		if k := c.kinds("d"); len(k) != 1 || k[0] != product.FactLimit || !c.has("e") {
			t.Errorf("facts %v", c.facts)
		}
	})
	t.Run("total bytes", func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, map[string]string{"a": "12345", "b": "12345", "c": "12345"})
		c := walk(t, dir, product.WalkOptions{Limits: product.Limits{TotalBytes: 10}})
		if len(c.facts) != 1 || len(c.entries) != 3 {
			t.Errorf("facts %v", c.facts)
		}
	})
}

// deepTree makes depth directories one in another, with a file in the last.
func deepTree(t testing.TB, dir, name string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	f, err := unix.Openat(fd, "leaf", unix.O_CREAT|unix.O_WRONLY, 0o644)
	must(t, err)
	unix.Close(f)
	unix.Close(fd)
}

func TestCaseA3DeepTree(t *testing.T) {
	dir := t.TempDir()
	deepTree(t, dir, "d", 5000)
	put(t, dir, map[string]string{"after": "x"})
	limitDescriptors(t, 600)
	c := walk(t, dir, product.WalkOptions{})
	if len(c.entries) != 5002 || len(c.facts) != 0 {
		t.Fatalf("%d entries, facts %v", len(c.entries), c.facts)
	}
	if last := c.entries[len(c.entries)-1].Path; last != strings.Repeat("d/", 5000)+"leaf" {
		t.Errorf("last is %d bytes", len(last))
	}
	dst := t.TempDir()
	if s, err := stageTo(t, dir, dst, product.StageOptions{}); err != nil || !slices.Equal(s.entries, c.entries) {
		t.Errorf("stage: %v, %d entries", err, len(s.entries))
	}
	if again := walk(t, dst, product.WalkOptions{}); !slices.Equal(again.entries, c.entries) {
		t.Error("the copy differs")
	}
	c = walk(t, dir, product.WalkOptions{Limits: product.Limits{Depth: 100}})
	if len(c.facts) != 1 || c.facts[0].Kind != product.FactLimit || !c.has("after") {
		t.Errorf("depth limit: %d facts", len(c.facts))
	}
}

// limitDescriptors lowers the process's limit for the test.
func limitDescriptors(t *testing.T, n uint64) {
	t.Helper()
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}))
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
}

func TestCaseA3LongNamesAndPaths(t *testing.T) {
	dir := t.TempDir()
	name := strings.Repeat("n", 255)
	deepTree(t, dir, name, 100) // 25,600 bytes: beyond PATH_MAX
	c := walk(t, dir, product.WalkOptions{})
	if len(c.entries) != 101 || len(c.facts) != 0 {
		t.Errorf("%d entries, %d facts", len(c.entries), len(c.facts))
	}
	dir = t.TempDir()
	deepTree(t, dir, name, 200) // 51,200 bytes: beyond product.MaxPath
	c = walk(t, dir, product.WalkOptions{})
	if len(c.entries) != 128 || len(c.facts) != 1 || c.facts[0].Kind != product.FactLimit {
		t.Errorf("%d entries, %d facts", len(c.entries), len(c.facts))
	}
}

func TestCaseA4NamesAreBytes(t *testing.T) {
	a := t.TempDir()
	odd := []string{"new\nline", "tab\t", "cr\r", "esc\x1b[31m", "bad\xff\xfe", "bidi\u202e", `back\slash`, `quo"te`, "\x01\x7f"}
	for _, n := range odd {
		put(t, a, map[string]string{n: n})
	}
	raw, sum := stream(t, a)
	c, again, err := decode(raw)
	if err != nil || again != sum {
		t.Fatalf("decode: %v", err)
	}
	for _, n := range odd {
		if e := c.entry(t, n); e.SHA256 != sha256.Sum256([]byte(n)) {
			t.Errorf("%q: %+v", n, e)
		}
	}
	// Two files, or one whose name is the manifest line of the second.
	a, b := t.TempDir(), t.TempDir()
	put(t, a, map[string]string{"x": "", "y": ""})
	put(t, b, map[string]string{"x\ny": ""})
	_, sa := stream(t, a)
	_, sb := stream(t, b)
	if sa.Tree == sb.Tree {
		t.Error("trees collide")
	}
}

func TestCaseA5HardLinkOutside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, dir, map[string]string{"inner": "x", "alone": "y"})
	must(t, os.Link(filepath.Join(dir, "inner"), filepath.Join(dir, "inner2")))
	put(t, outside, map[string]string{"peer": "z"})
	must(t, os.Link(filepath.Join(outside, "peer"), filepath.Join(dir, "outer")))
	c := walk(t, dir, product.WalkOptions{})
	if len(c.facts) != 1 || c.facts[0].Path != "outer" || c.facts[0].Kind != product.FactHardLink {
		t.Errorf("facts %v", c.facts)
	}
}

func TestCaseA5FileCapability(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to set a capability")
	}
	dir := t.TempDir()
	put(t, dir, map[string]string{"cap": "x", "plain": "y"})
	v2 := []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	must(t, os.Chmod(filepath.Join(dir, "cap"), 0o755))
	must(t, unix.Setxattr(filepath.Join(dir, "cap"), "security.capability", v2, 0))
	c := walk(t, dir, product.WalkOptions{})
	if len(c.facts) != 1 || c.facts[0].Path != "cap" || c.facts[0].Kind != product.FactCapability {
		t.Errorf("facts %v", c.facts)
	}
}

func TestCaseA6WhatChangesTheDigest(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"f": "x", "d/": ""})
	must(t, os.Symlink("f", filepath.Join(dir, "l")))
	_, before := stream(t, dir)
	old := time.Unix(1, 0)
	must(t, os.Chtimes(filepath.Join(dir, "f"), old, old))
	if _, sum := stream(t, dir); sum != before {
		t.Error("a time changed the digest")
	}
	for name, change := range map[string]struct{ do, undo func() error }{
		"mode bit": {
			func() error { return os.Chmod(filepath.Join(dir, "f"), 0o645) },
			func() error { return os.Chmod(filepath.Join(dir, "f"), 0o644) },
		},
		"directory's mode": {
			func() error { return os.Chmod(filepath.Join(dir, "d"), 0o700) },
			func() error { return os.Chmod(filepath.Join(dir, "d"), 0o755) },
		},
		"name": {
			func() error { return os.Rename(filepath.Join(dir, "f"), filepath.Join(dir, "g")) },
			func() error { return os.Rename(filepath.Join(dir, "g"), filepath.Join(dir, "f")) },
		},
		"empty directory": {
			func() error { return os.Remove(filepath.Join(dir, "d")) },
			func() error { return os.Mkdir(filepath.Join(dir, "d"), 0o755) },
		},
		"type": {
			func() error {
				return relink(filepath.Join(dir, "d"), func(p string) error { return os.WriteFile(p, nil, 0o755) })
			},
			func() error {
				return relink(filepath.Join(dir, "d"), func(p string) error { return os.Mkdir(p, 0o755) })
			},
		},
		"link target": {
			func() error {
				return relink(filepath.Join(dir, "l"), func(p string) error { return os.Symlink("d", p) })
			},
			func() error {
				return relink(filepath.Join(dir, "l"), func(p string) error { return os.Symlink("f", p) })
			},
		},
		"content": {
			func() error { return os.WriteFile(filepath.Join(dir, "f"), []byte("y"), 0) },
			func() error { return os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0) },
		},
	} {
		must(t, change.do())
		_, after := stream(t, dir)
		if after.Tree == before.Tree {
			t.Errorf("%s: same digest", name)
		}
		must(t, change.undo())
		if _, sum := stream(t, dir); sum.Tree != before.Tree {
			t.Fatalf("%s: undoing it does not give the digest back", name)
		}
	}
}

func relink(path string, make func(string) error) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return make(path)
}
