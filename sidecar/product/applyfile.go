package product

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrSealed is the error of stage bytes that are not the sealed ones.
var ErrSealed = errors.New("the stage's bytes are not the sealed ones")

// write puts a file or a link in its place.
func (w *writer) write(a *action) error {
	dir, name, err := w.at(a)
	if err != nil {
		return err
	}
	temp := w.temp(a.path)
	if err := clear(dir, temp); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	var made int
	if a.after.Type == TypeSymlink {
		made, err = w.writeLink(dir, temp, a)
	} else {
		made, err = w.writeFile(dir, temp, a)
	}
	if made >= 0 {
		defer unix.Close(made)
	}
	if err == nil {
		err = w.place(dir, temp, name, made, a)
	}
	if err != nil {
		return errors.Join(err, clear(dir, temp))
	}
	return nil
}

func (w *writer) writeLink(dir int, temp string, a *action) (made int, err error) {
	from, name, err := w.stage.parent(a.path)
	if err != nil {
		return -1, fmt.Errorf("open stage: %w", err)
	}
	target, err := readLink(from, name)
	if err != nil {
		return -1, fmt.Errorf("read stage: %w", err)
	}
	if sha256.Sum256([]byte(target)) != a.after.SHA256 {
		return -1, ErrSealed
	}
	if err := unix.Symlinkat(target, dir, temp); err != nil {
		return -1, err
	}
	if made, err = openMade(dir, temp, TypeSymlink); err != nil {
		return -1, err
	}
	return made, w.own(dir, made, a)
}

// writeFile returns the open temporary file, which the caller closes, also
// beside an error.
func (w *writer) writeFile(dir int, temp string, a *action) (made int, err error) {
	from, name, err := w.stage.parent(a.path)
	if err != nil {
		return -1, fmt.Errorf("open stage: %w", err)
	}
	in, err := openBeneath(from, name, openFile, 0)
	if err != nil {
		return -1, fmt.Errorf("open stage: %w", err)
	}
	defer unix.Close(in)
	if st, err := fstat(in); err != nil || typeOf(st.Mode) != TypeFile {
		return -1, errors.Join(err, ErrSealed)
	}
	made, err = openBeneath(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return -1, err
	}
	if err := w.copy(in, made, a.after); err != nil {
		return made, err
	}
	// The owner first: a change of owner takes bits from the mode.
	if err := w.own(dir, made, a); err != nil {
		return made, err
	}
	if err := unix.Fchmod(made, a.after.Mode&^setIDBits); err != nil {
		return made, err
	}
	return made, unix.Fsync(made)
}

// copy copies exactly the sealed bytes, or fails.
func (w *writer) copy(in, out int, want *Entry) error {
	h := sha256.New()
	var got int64
	for {
		n, err := read(in, w.buf)
		if err != nil {
			return fmt.Errorf("read stage: %w", err)
		}
		if got += int64(n); got > want.Size {
			return ErrSealed
		}
		h.Write(w.buf[:n])
		if err := write(out, w.buf[:n]); err != nil {
			return err
		}
		if n < len(w.buf) {
			break
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
	}
	if got != want.Size || [32]byte(h.Sum(nil)) != want.SHA256 {
		return ErrSealed
	}
	return nil
}
