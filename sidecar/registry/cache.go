package registry

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Cache keeps archives by the sha512 of their bytes, below sha512/ in a
// directory that only the supervisor has. A name says what the bytes must be:
// they are hashed at each read, whoever put them there.
type Cache struct {
	root *os.Root

	mu      sync.Mutex
	filling map[string]*filling
}

type filling struct {
	done chan struct{}
	err  error
}

// MaxArchive is the largest archive, in bytes.
const MaxArchive = 1 << 30

// small is up to which size an archive is hashed in memory and sent from there; a
// thousand clients at once must not be the supervisor's whole memory.
const small = 128 << 10

var (
	errNotCached = errors.New("not in the cache")
	errOther     = errors.New("the bytes are not those that were approved")
)

// OpenCache opens the cache in a directory.
func OpenCache(dir string) (*Cache, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	if err := root.Mkdir("sha512", 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, errors.Join(fmt.Errorf("open cache: %w", err), root.Close())
	}
	return &Cache{root: root, filling: map[string]*filling{}}, nil
}

// Close closes the directory. Nothing may be read any more.
func (c *Cache) Close() error { return c.root.Close() }

// digest is the sum in an integrity, sha512- and base64.
func digest(integrity string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(integrity, "sha512-"))
	if err != nil || len(b) != sha512.Size || !strings.HasPrefix(integrity, "sha512-") {
		return nil, errors.New("not a sha512 integrity")
	}
	return b, nil
}

func fileOf(sum []byte) string { return "sha512/" + hex.EncodeToString(sum) }

// archive is an archive whose bytes are those of its integrity.
type archive struct {
	io.Reader
	size int64
	file *os.File // nil where the bytes are in memory
}

func (a *archive) Close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// open returns the archive if the cache has it and its bytes are right. A file
// with other bytes is removed.
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
	a, err := verify(f, sum)
	if err != nil {
		_ = f.Close()
		if errors.Is(err, errOther) {
			_ = c.root.Remove(name)
			return nil, errNotCached
		}
		return nil, err
	}
	return a, nil
}

func verify(f *os.File, sum []byte) (*archive, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > MaxArchive {
		return nil, errOther
	}
	h := sha512.New()
	if st.Size() <= small {
		b := make([]byte, st.Size())
		if _, err := io.ReadFull(f, b); err != nil {
			return nil, errOther
		}
		h.Write(b)
		if !bytes.Equal(h.Sum(nil), sum) {
			return nil, errOther
		}
		return &archive{bytes.NewReader(b), st.Size(), nil}, f.Close()
	}
	before, err := stampOf(f)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(h, io.LimitReader(f, st.Size())); err != nil {
		return nil, err
	}
	if !bytes.Equal(h.Sum(nil), sum) {
		return nil, errOther
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return &archive{&unchanged{f: f, left: st.Size(), stamp: before}, st.Size(), f}, nil
}

// unchanged gives out the last bytes of a file only if nobody has written to it
// since it was hashed: a file that is changed while it is read is never whole
// elsewhere.
type unchanged struct {
	f     *os.File
	left  int64
	stamp stamp
}

func (u *unchanged) Read(p []byte) (int, error) {
	if u.left == 0 {
		return 0, io.EOF
	}
	n, err := u.f.Read(p[:min(int64(len(p)), u.left)])
	u.left -= int64(n)
	if u.left == 0 {
		if now, err := stampOf(u.f); err != nil || now != u.stamp {
			return 0, errOther
		}
	}
	return n, err
}

// stamp is what the kernel changes with every write.
type stamp struct {
	size         int64
	ctime, mtime unix.Timespec
}

func stampOf(f *os.File) (stamp, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return stamp{st.Size, st.Ctim, st.Mtim}, err
}

// fill puts what fetch returns into the cache, if the bytes are those of the
// integrity. Several at once for one integrity fetch once.
func (c *Cache) fill(ctx context.Context, integrity string, fetch func(context.Context) (io.ReadCloser, error)) error {
	c.mu.Lock()
	f, busy := c.filling[integrity]
	if !busy {
		f = &filling{done: make(chan struct{})}
		c.filling[integrity] = f
	}
	c.mu.Unlock()
	if busy {
		select {
		case <-f.done:
			return f.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.err = c.store(ctx, integrity, fetch)
	c.mu.Lock()
	delete(c.filling, integrity)
	c.mu.Unlock()
	close(f.done)
	return f.err
}

func (c *Cache) store(ctx context.Context, integrity string, fetch func(context.Context) (io.ReadCloser, error)) error {
	sum, err := digest(integrity)
	if err != nil {
		return err
	}
	from, err := fetch(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	// A file without a name: whatever ends this process leaves none behind.
	dir, err := c.root.Open("sha512")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("make a file in the cache: %w", err)
	}
	f := os.NewFile(uintptr(fd), "cache")
	defer func() { _ = f.Close() }()
	h := sha512.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(from, MaxArchive+1))
	switch {
	case err != nil:
		return fmt.Errorf("fetch archive: %w", err)
	case n > MaxArchive:
		return fmt.Errorf("fetch archive: it is larger than %d bytes", int64(MaxArchive))
	case !bytes.Equal(h.Sum(nil), sum):
		return errOther
	}
	if err := f.Sync(); err != nil {
		return err
	}
	err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), int(dir.Fd()), filepath.Base(fileOf(sum)), unix.AT_SYMLINK_FOLLOW)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("keep archive: %w", err)
	}
	return nil
}
