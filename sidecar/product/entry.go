package product

import (
	"errors"
	"fmt"
	"strings"
)

// Type is what an entry is.
type Type string

// The types of entry.
const (
	TypeDir     Type = "dir"
	TypeFile    Type = "file"
	TypeSymlink Type = "symlink"
	TypeFIFO    Type = "fifo"
	TypeSocket  Type = "socket"
	TypeBlock   Type = "block-device"
	TypeChar    Type = "char-device"
)

// code is the type's byte in the tree digest; 0 for an unknown type.
func (t Type) code() byte {
	switch t {
	case TypeDir:
		return 'd'
	case TypeFile:
		return 'f'
	case TypeSymlink:
		return 'l'
	case TypeFIFO:
		return 'p'
	case TypeSocket:
		return 's'
	case TypeBlock:
		return 'b'
	case TypeChar:
		return 'c'
	}
	return 0
}

// Special reports whether the type is one that is never opened.
func (t Type) Special() bool {
	switch t {
	case TypeDir, TypeFile, TypeSymlink:
		return false
	}
	return true
}

// Entry is one path of a tree. Path is raw bytes, relative to the tree's root
// and slash separated. Mode holds the permission bits (07777) alone. Size and
// SHA256 are of a file's content or a link's target; SHA256 is zero for what has
// no content, and for content that a fact of the stream says was not read.
type Entry struct {
	Path   string
	Type   Type
	Mode   uint32
	Size   int64
	SHA256 [32]byte
}

// MaxPath is the longest path of an entry, in bytes. It is eight times Linux's
// PATH_MAX: deep trees are ordinary, but 200,000 paths of a mebibyte are not.
const MaxPath = 32 << 10

var errPath = errors.New("path is not relative and clean")

// check reports why e cannot be an entry of a tree.
func (e *Entry) check() error {
	if err := checkPath(e.Path); err != nil {
		return err
	}
	if e.Type.code() == 0 {
		return fmt.Errorf("entry %q: unknown type %q", e.Path, e.Type)
	}
	if e.Mode&^0o7777 != 0 || e.Size < 0 {
		return fmt.Errorf("entry %q: mode or size out of range", e.Path)
	}
	return nil
}

// checkPath accepts relative, slash separated paths without empty, "." and ".."
// components and without NUL.
func checkPath(path string) error {
	if path == "" || len(path) > MaxPath || strings.IndexByte(path, 0) >= 0 {
		return errPath
	}
	for rest, more := path, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		if name == "" || name == "." || name == ".." || len(name) > 255 {
			return errPath
		}
	}
	return nil
}

// InGit reports whether a component of path is ".git".
func InGit(path string) bool {
	for rest, more := path, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		if name == ".git" {
			return true
		}
	}
	return false
}
