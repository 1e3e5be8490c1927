package product

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// visit emits the item of one name in the directory l.
func (w *walker) visit(l *level, name string, typ byte) {
	if l.dir == nil { // it could not be opened again
		return
	}
	path := join(w.pathOf(l), name)
	if w.stage != nil && w.stage.excluded(path) {
		w.emit(item{facts: []Fact{{Path: path, Kind: FactLeftOut, Detail: "excluded by the policy"}}})
		return
	}
	if !w.within(l, path) {
		return
	}
	if typ == unix.DT_UNKNOWN {
		st, err := statAt(l.dir.fd, name)
		if err != nil {
			w.emit(item{facts: []Fact{openFact(path, err)}})
			return
		}
		typ = direntType(typeOf(st.Mode))
	}
	if typ == unix.DT_DIR {
		w.visitDir(l, name, path)
		return
	}
	w.emit(item{kind: itemWork, dir: l.dir.keep(), name: name, path: path, typ: typ})
}

func direntType(t Type) byte {
	switch t {
	case TypeDir:
		return unix.DT_DIR
	case TypeFile:
		return unix.DT_REG
	case TypeSymlink:
		return unix.DT_LNK
	}
	return unix.DT_FIFO // any special one: it is looked at, not opened
}

// within counts an entry and reports whether the limits allow it. Over the
// limit of the whole tree, the walk ends.
func (w *walker) within(l *level, path string) bool {
	w.entries++
	w.pathBytes += int64(len(path))
	switch {
	case w.entries > w.limits.Entries || w.pathBytes > w.limits.PathBytes:
		what := "entries in the tree"
		if w.pathBytes > w.limits.PathBytes {
			what = "total length of the paths"
		}
		w.emit(item{facts: []Fact{limitFact("", what)}})
		for _, up := range w.stack { // nothing more of anything
			up.next = len(up.list)
		}
		return false
	case len(path) > MaxPath:
		// The long path itself cannot be named in the stream.
		w.emit(item{facts: []Fact{limitFact(w.pathOf(l), "length of a path below")}})
		return false
	}
	return true
}

// visitDir emits a directory's own entry and remembers the directory for enter.
func (w *walker) visitDir(l *level, name, path string) {
	fd, err := openBeneath(l.dir.fd, name, openDir, 0)
	if err != nil {
		w.emit(unopened(l.dir.fd, name, path, err))
		return
	}
	st, err := fstat(fd)
	if err != nil {
		unix.Close(fd)
		w.emit(item{facts: []Fact{openFact(path, err)}})
		return
	}
	it := item{known: true, entry: Entry{Path: path, Type: TypeDir, Mode: st.Mode & 0o7777}}
	if w.stage != nil {
		if err := w.stage.makeDir(l.dir.out, name); err != nil {
			w.stage.fail(path, err)
		}
		it.entry.Mode &^= setIDBits
	}
	w.emit(it)
	if l.dirs == nil {
		l.dirs = make(map[string]seenDir)
	}
	seen := seenDir{id: idOf(&st), fd: -1, st: st}
	if l.next < len(l.list) && l.list[l.next].key == name+"/" {
		seen.fd = fd
	} else {
		unix.Close(fd)
	}
	l.dirs[name] = seen
}

// enter goes into the directory that visitDir saw.
func (w *walker) enter(l *level, name string) {
	seen, ok := l.dirs[name]
	if !ok || l.dir == nil {
		return
	}
	delete(l.dirs, name)
	path := join(w.pathOf(l), name)
	fd := seen.fd
	if fd < 0 {
		var err error
		if fd, err = openBeneath(l.dir.fd, name, openDir, 0); err != nil {
			w.emit(item{facts: []Fact{openFact(path, err)}})
			return
		}
		if st, err := fstat(fd); err != nil || idOf(&st) != seen.id {
			unix.Close(fd)
			w.emit(item{facts: []Fact{{Path: path, Kind: FactChanged, Detail: "replaced while it was read"}}})
			return
		}
	}
	if len(w.stack) >= w.limits.Depth {
		unix.Close(fd)
		w.emit(item{facts: []Fact{limitFact(path, "depth of directories")}})
		return
	}
	next := &level{dir: newDir(fd, -1), id: seen.id, meta: seen.st}
	if w.stage != nil {
		if err := w.stage.openDir(l.dir.out, name, next); err != nil {
			w.stage.fail(path, err)
			next.dir.drop()
			return
		}
	}
	w.push(next, path)
}

// unopened is the item of a name that could not be opened: with an entry when
// it is there and only the permission is missing.
func unopened(dir int, name, path string, err error) item {
	it := item{facts: []Fact{openFact(path, err)}}
	if it.facts[0].Kind != FactUnreadable {
		return it
	}
	if st, err := statAt(dir, name); err == nil {
		it.known = true
		it.entry = Entry{Path: path, Type: typeOf(st.Mode), Mode: st.Mode & 0o7777}
		if it.entry.Type == TypeFile {
			it.entry.Size = st.Size
		}
	}
	return it
}

// openFact says why a name could not be opened.
func openFact(path string, err error) Fact {
	f := Fact{Path: path, Detail: Text(err.Error())}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		f.Kind = FactUnreadable
		return f
	}
	switch errno {
	case unix.EXDEV:
		f.Kind, f.Detail = FactMount, "a mount point"
	case unix.ENOENT, unix.ELOOP, unix.ENOTDIR, unix.ENXIO, unix.EINVAL, unix.EAGAIN, unix.EISDIR:
		f.Kind = FactChanged
	default:
		f.Kind = FactUnreadable
	}
	return f
}
