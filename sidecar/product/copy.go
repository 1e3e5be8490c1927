package product

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// copyAttempts is how often a file that changes under the copy is begun anew.
const copyAttempts = 3

// copyFile copies the open file of it and fills in the entry.
func (k *worker) copyFile(it *item, fd, wanted int) {
	s := k.w.stage
	it.entry.Mode &^= setIDBits
	out, err := openBeneath(it.dir.out, it.name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		s.fail(it.path, fmt.Errorf("write copy: %w", err))
		return
	}
	defer unix.Close(out)
	var content []byte
	for range copyAttempts {
		content, err = k.copyOnce(it, fd, out, wanted)
		if err == nil && !unchanged(fd, &it.meta) {
			err = errFileChanged
		}
		if !errors.Is(err, errFileChanged) {
			break
		}
		if again := k.rewind(it, fd, out); again != nil {
			err = again
			break
		}
	}
	if err == nil {
		err = s.finish(out, it.entry.Mode, it.meta.Mtim)
	}
	if err == nil {
		it.known = true
		it.meta.Nlink = 1 // the copy has one name
		if wanted > 0 {
			it.facts = append(it.facts, k.w.ext.Extract(it.entry, content)...)
		}
		return
	}
	if err := unix.Unlinkat(it.dir.out, it.name, 0); err != nil {
		s.fail(it.path, fmt.Errorf("take back copy: %w", err))
	}
	if errors.Is(err, errFileChanged) {
		it.fact(FactChanged, "")
		return
	}
	s.fail(it.path, err)
}

// rewind prepares another attempt with the file's size of now.
func (k *worker) rewind(it *item, fd, out int) error {
	st, err := fstat(fd)
	if err != nil {
		return err
	}
	it.meta, it.entry.Size, it.entry.Mode = st, st.Size, st.Mode&0o7777&^setIDBits
	if st.Size > k.w.limits.FileBytes || !k.w.bytes.take(st.Size) {
		return errors.New("over the limit: bytes of content")
	}
	_, err = unix.Seek(fd, 0, unix.SEEK_SET)
	return errors.Join(err, unix.Ftruncate(out, 0))
}

// cloneFrom is the size from which sharing blocks is worth a system call.
const cloneFrom = 16 << 10

// copyOnce copies fd to out. The digest is of the bytes that are in out: a clone
// is read back from there, not from the original.
func (k *worker) copyOnce(it *item, fd, out, wanted int) ([]byte, error) {
	s := k.w.stage
	if it.entry.Size >= cloneFrom && !s.noClone.Load() {
		err := unix.IoctlFileClone(out, fd)
		if err == nil {
			return k.digestClone(it, out, wanted)
		}
		s.noClone.Store(true)
	}
	hole := false
	content, err := k.pump(it, fd, wanted, func(piece []byte, off int64) error {
		// Holes stay holes.
		if hole = len(piece) >= 4096 && bytes.Equal(piece, k.zeros(len(piece))); hole {
			return nil
		}
		return writeAt(out, piece, off)
	})
	if err != nil {
		return nil, err
	}
	if hole { // at the end
		if err := unix.Ftruncate(out, it.entry.Size); err != nil {
			return nil, fmt.Errorf("write copy: %w", err)
		}
	}
	return content, nil
}

func (k *worker) digestClone(it *item, out, wanted int) ([]byte, error) {
	st, err := fstat(out)
	if err != nil {
		return nil, err
	}
	if st.Size != it.entry.Size {
		return nil, errFileChanged
	}
	return k.digest(it, out, wanted)
}

// zeros returns n zero bytes.
func (k *worker) zeros(n int) []byte {
	if k.zero == nil {
		k.zero = make([]byte, readBuffer)
	}
	return k.zero[:n]
}

// writeAt writes buf at off.
func writeAt(fd int, buf []byte, off int64) error {
	for len(buf) > 0 {
		n, err := unix.Pwrite(fd, buf, off)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("write copy: %w", err)
		}
		buf, off = buf[n:], off+int64(n)
	}
	return nil
}
