package registry

import (
	"bytes"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// small is up to which size an archive is hashed in memory before its first byte
// goes out; block is what is held of a larger one. A thousand clients at once
// must not be the supervisor's whole memory.
const (
	small = 128 << 10
	block = 64 << 10
)

// usedEvery is how exactly the cache knows when an archive was last used.
const usedEvery = time.Minute

// archive is an archive that nobody has whole unless its bytes are those of its
// integrity.
type archive struct {
	size int64
	sum  []byte
	file *os.File // nil where the bytes are in memory, and right
	all  []byte
	drop func() // removes what turned out to be something else
}

func (a *archive) Close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// open returns the archive if the cache has it. One with other bytes is removed,
// at once or when that turns out.
func (c *Cache) open(integrity string) (*archive, error) {
	sum, err := digest(integrity)
	if err != nil {
		return nil, err
	}
	name := fileOf(sum)
	f, err := c.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNotCached
	}
	if err != nil {
		return nil, err
	}
	a := &archive{sum: sum, file: f, drop: func() { _ = c.root.Remove(name) }}
	err = a.begin()
	if err == nil && a.file != nil {
		return a, nil
	}
	_ = f.Close()
	if errors.Is(err, errOther) {
		a.drop()
		return nil, errNotCached
	}
	return a, err
}

// begin looks at the file, and reads a small one.
func (a *archive) begin() error {
	st, err := a.file.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() || st.Size() > MaxArchive {
		return errOther
	}
	a.size = st.Size()
	// Whoever prunes the cache leaves what somebody holds.
	switch err := unix.Flock(int(a.file.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return errNotCached // it is just being removed
	case err != nil:
		return fmt.Errorf("hold archive: %w", err)
	}
	if time.Since(st.ModTime()) > usedEvery {
		now := unix.Timespec{Nsec: unix.UTIME_NOW}
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", a.file.Fd()), []unix.Timespec{now, now}, 0); err != nil {
			return fmt.Errorf("note the use of an archive: %w", err)
		}
	}
	if a.size > small {
		return nil
	}
	a.all = make([]byte, a.size)
	if _, err := io.ReadFull(a.file, a.all); err != nil {
		return errOther
	}
	if sum := sha512.Sum512(a.all); !bytes.Equal(sum[:], a.sum) {
		return errOther
	}
	a.file = nil
	return nil
}

// WriteTo gives the bytes out, once. Those of a large file are hashed on their
// way, the very ones that go out, and the last block waits for the digest:
// whoever gets other bytes gets them cut, with an error here.
func (a *archive) WriteTo(w io.Writer) (int64, error) {
	if a.file == nil {
		n, err := w.Write(a.all)
		return int64(n), err
	}
	h := sha512.New()
	buf := make([]byte, min(block, a.size))
	for out := int64(0); ; {
		b := buf[:min(int64(len(buf)), a.size-out)]
		if _, err := io.ReadFull(a.file, b); err != nil {
			a.drop()
			return out, errors.Join(errOther, err)
		}
		h.Write(b)
		last := out+int64(len(b)) == a.size
		if last && !bytes.Equal(h.Sum(nil), a.sum) {
			a.drop()
			return out, errOther
		}
		n, err := w.Write(b)
		out += int64(n)
		if err != nil || last {
			return out, err
		}
	}
}
