package product

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Tree reads single files of a tree by path, following symbolic links only as
// far as they stay inside.
type Tree struct{ root int }

var (
	// ErrOutside is the error of a path that leads out of the tree.
	ErrOutside = errors.New("leads out of the tree")
	// ErrNotFile is the error of a path that names no file, or no directory,
	// where one is needed.
	ErrNotFile = errors.New("not a file that can be read here")
	errHops    = errors.New("too many symbolic links")
)

const (
	maxHops = 40
	// maxSteps bounds the components of one resolution: links can double it.
	maxSteps = 4096
)

// ReadFile returns the first limit bytes of the file at path, and its entry
// with the path that it has without links. Files over 64 MiB are refused.
func (t *Tree) ReadFile(path string, limit int) ([]byte, Entry, error) {
	fd, real, err := t.open(path)
	if err != nil {
		return nil, Entry{}, fmt.Errorf("read %q in tree: %w", path, err)
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err != nil {
		return nil, Entry{}, fmt.Errorf("read %q in tree: %w", path, err)
	}
	e := Entry{Path: real, Type: typeOf(st.Mode), Mode: st.Mode & 0o7777, Size: st.Size}
	if e.Type != TypeFile || st.Size > 64<<20 {
		return nil, e, fmt.Errorf("read %q in tree: %w", path, ErrNotFile)
	}
	buf := make([]byte, st.Size)
	n, err := read(fd, buf)
	if err != nil || int64(n) != st.Size {
		return nil, e, fmt.Errorf("read %q in tree: %w", path, errors.Join(err, errFileChanged))
	}
	e.SHA256 = sha256.Sum256(buf)
	return buf[:min(n, limit)], e, nil
}

// ReadDir returns the names in the directory at path, at most limit, sorted,
// and the path that it has without links.
func (t *Tree) ReadDir(path string, limit int) (names []string, real string, err error) {
	fd, real, err := t.open(path)
	if err != nil {
		return nil, "", fmt.Errorf("list %q in tree: %w", path, err)
	}
	defer unix.Close(fd)
	list, _, err := readNames(fd, 1<<20, make([]byte, 32<<10))
	if err != nil {
		return nil, "", fmt.Errorf("list %q in tree: %w", path, err)
	}
	if len(list) > limit {
		return nil, "", fmt.Errorf("list %q in tree: %w", path, errTooMany)
	}
	for _, c := range listing(list) {
		if name, sub := c.split(); !sub {
			names = append(names, name)
		}
	}
	return names, real, nil
}

// ReadLink returns the target of the link at path, whose directory is resolved.
func (t *Tree) ReadLink(path string) (string, error) {
	dir, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
	}
	fd, _, err := t.open(dir)
	if err != nil {
		return "", fmt.Errorf("read link %q in tree: %w", path, err)
	}
	defer unix.Close(fd)
	target, err := readLink(fd, name)
	if err != nil {
		return "", fmt.Errorf("read link %q in tree: %w", path, err)
	}
	return target, nil
}

// open resolves path and opens what it names, which is never a special file.
func (t *Tree) open(path string) (fd int, real string, err error) {
	var done []string // components without links
	todo := split(path)
	for hops, steps := 0, 0; len(todo) > 0; steps++ {
		if steps == maxSteps {
			return -1, "", errHops
		}
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				return -1, "", ErrOutside
			}
			done = done[:len(done)-1]
			continue
		}
		target, isLink, err := t.linkAt(done, name)
		if err != nil {
			return -1, "", err
		}
		if !isLink {
			done = append(done, name)
			continue
		}
		if hops++; hops > maxHops {
			return -1, "", errHops
		}
		if strings.HasPrefix(target, "/") {
			return -1, "", ErrOutside
		}
		todo = append(split(target), todo...)
	}
	fd, err = t.descend(done)
	return fd, strings.Join(done, "/"), err
}

func split(path string) []string { return strings.Split(path, "/") }

// linkAt returns the target of the link name in the directory dir, if it is one.
func (t *Tree) linkAt(dir []string, name string) (string, bool, error) {
	fd, err := t.descend(dir)
	if err != nil {
		return "", false, err
	}
	defer unix.Close(fd)
	target, err := readLink(fd, name)
	if errors.Is(err, unix.EINVAL) { // not a link
		return "", false, nil
	}
	return target, err == nil, err
}

// descend opens the path of components without following any link.
func (t *Tree) descend(path []string) (int, error) {
	fd, err := unix.Openat(t.root, ".", openDir, 0)
	if err != nil {
		return -1, err
	}
	for i, name := range path {
		st, err := statAt(fd, name)
		flags := openFile
		if err == nil && (i < len(path)-1 || typeOf(st.Mode) == TypeDir) {
			flags = openDir
		} else if err == nil && typeOf(st.Mode) != TypeFile {
			err = ErrNotFile
		}
		next := -1
		if err == nil {
			next, err = openBeneath(fd, name, flags, 0)
		}
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}
