package product

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// entryAt reads the entry at path below d's root, nil when nothing is there. The
// state is that of the moment before its content was read.
func (p *planner) entryAt(d *dirs, path string) (*Entry, unix.Stat_t, error) {
	var none unix.Stat_t
	fd, name, err := d.parent(path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil, none, nil
	}
	if err != nil {
		return nil, none, errors.New(openFact("", err).Detail)
	}
	st, err := statAt(fd, name)
	if errors.Is(err, unix.ENOENT) {
		return nil, none, nil
	}
	if err != nil {
		return nil, none, err
	}
	e := &Entry{Path: path, Type: typeOf(st.Mode), Mode: st.Mode & 0o7777}
	switch e.Type {
	case TypeSymlink:
		target, err := readLink(fd, name)
		if err != nil {
			return nil, none, err
		}
		e.Size, e.SHA256 = int64(len(target)), sha256.Sum256([]byte(target))
	case TypeFile:
		e.Size = st.Size
		if e.SHA256, err = p.hash(fd, name, &st); err != nil {
			return nil, none, err
		}
	}
	return e, st, nil
}

// hash is the digest of the file name in dir, which st describes.
func (p *planner) hash(dir int, name string, st *unix.Stat_t) (sum [32]byte, err error) {
	fd, err := openSameFile(dir, name, st)
	if err != nil {
		return sum, err
	}
	defer unix.Close(fd)
	h := sha256.New()
	var got int64
	for {
		n, err := read(fd, p.buf)
		if err != nil {
			return sum, err
		}
		h.Write(p.buf[:n])
		got += int64(n)
		if err := p.ctx.Err(); err != nil {
			return sum, err
		}
		if n < len(p.buf) || got > st.Size {
			break
		}
	}
	if got != st.Size || !unchanged(fd, st) {
		return sum, errFileChanged
	}
	h.Sum(sum[:0])
	return sum, nil
}

// openSameFile opens the regular file that st describes, and no other.
func openSameFile(dir int, name string, st *unix.Stat_t) (int, error) {
	fd, err := openBeneath(dir, name, openFile, 0)
	if err != nil {
		return -1, errors.New(openFact("", err).Detail)
	}
	now, err := fstat(fd)
	if err != nil || idOf(&now) != idOf(st) || typeOf(now.Mode) != TypeFile {
		unix.Close(fd)
		return -1, errors.Join(err, errFileChanged)
	}
	return fd, nil
}

// content is that of the file at path, at most maxIndex bytes.
func (p *planner) content(d *dirs, path string) ([]byte, error) {
	fd, name, err := d.parent(path)
	if err != nil {
		return nil, err
	}
	st, err := statAt(fd, name)
	if err != nil {
		return nil, err
	}
	if typeOf(st.Mode) != TypeFile || st.Size > maxIndex {
		return nil, fmt.Errorf("%q: %w", path, ErrNotFile)
	}
	file, err := openSameFile(fd, name, &st)
	if err != nil {
		return nil, err
	}
	defer unix.Close(file)
	buf := make([]byte, st.Size)
	n, err := read(file, buf)
	if err != nil || int64(n) != st.Size {
		return nil, errors.Join(err, errFileChanged)
	}
	return buf, nil
}
