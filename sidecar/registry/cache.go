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
// directory that only the supervisors have. A name says what the bytes must be:
// they are hashed at each read, whoever put them there. It is bounded: what was
// not used for the longest makes room, in any session that shares it.
type Cache struct {
	root *os.Root
	most int64

	mu      sync.Mutex
	filling map[string]*filling
}

type filling struct {
	done chan struct{}
	err  error
}

// MaxArchive is the largest archive, in bytes.
const MaxArchive = 1 << 30

// MaxCache is how much all archives together may be, in bytes.
const MaxCache = 8 << 30

var (
	errNotCached = errors.New("not in the cache")
	errOther     = errors.New("the bytes are not those that were approved")
)

// OpenCache opens the cache in a directory, which keeps at most so many bytes.
func OpenCache(dir string, most int64) (*Cache, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	if err := root.Mkdir("sha512", 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, errors.Join(fmt.Errorf("open cache: %w", err), root.Close())
	}
	return &Cache{root: root, most: most, filling: map[string]*filling{}}, nil
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
	return c.prune(dir)
}
