package product

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// dir is an open directory that a walker and its workers share. out is the
// directory's copy, or -1.
type dir struct {
	fd, out int
	refs    atomic.Int32
}

func newDir(fd, out int) *dir {
	d := &dir{fd: fd, out: out}
	d.refs.Store(1)
	return d
}

func (d *dir) keep() *dir {
	d.refs.Add(1)
	return d
}

func (d *dir) drop() {
	if d.refs.Add(-1) == 0 {
		unix.Close(d.fd)
		if d.out >= 0 {
			unix.Close(d.out)
		}
	}
}

// child is one key of a directory's listing: "name" for the entry itself, or
// "name/" for what is below it, so that sorting the keys gives the byte order of
// the full paths ("a", "a-b", "a/x").
type child struct {
	key string // ends with "/" for the subtree
	typ byte
}

// listing sorts a directory's names. Directories come twice.
func listing(names []dirent) []child {
	list := make([]child, 0, len(names)+len(names)/8)
	for _, d := range names {
		list = append(list, child{key: d.name, typ: d.typ})
		if d.typ == unix.DT_DIR || d.typ == unix.DT_UNKNOWN {
			list = append(list, child{key: d.name + "/", typ: d.typ})
		}
	}
	slices.SortFunc(list, func(a, b child) int { return cmp.Compare(a.key, b.key) })
	return list
}

// sub reports whether the key stands for a subtree, and the name.
func (c child) split() (name string, sub bool) { return strings.CutSuffix(c.key, "/") }

// level is one directory on the way from the root to where the walk is.
type level struct {
	dir     *dir // nil while it is closed to save descriptors
	id      fileID
	outID   fileID
	pathLen int // of walker.path
	list    []child
	next    int
	held    int64
	meta    unix.Stat_t
	// dirs remembers the directories whose own entry was emitted and whose
	// subtree comes later in the list. It holds more than one only for names
	// like "a", "a-b" and "a.c".
	dirs map[string]seenDir
}

// seenDir is a directory between its entry and its subtree.
type seenDir struct {
	id fileID
	fd int // open when the subtree is next, else -1
	st unix.Stat_t
}
