package safedir

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Dir is an opened directory that passed the rules.
type Dir struct {
	file  *os.File
	path  string
	place Place
	self  identity
}

func processIdentity() identity {
	return identity{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
}

// Open opens an existing directory and judges it by the rules. Path must be
// absolute. The error wraps ErrUnsafe where a rule refuses it.
func Open(path string, rules Rules) (*Dir, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("open directory %q: not an absolute path", path)
	}
	self := processIdentity()
	fd, err := open(path, rules.Place, self)
	if err != nil {
		return nil, fmt.Errorf("open directory %q: %w", path, err)
	}
	return &Dir{file: os.NewFile(uintptr(fd), path), path: path, place: rules.Place, self: self}, nil
}

func open(path string, place Place, self identity) (int, error) {
	if place == Mount || place == SecretMount {
		fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		if err := requireMountRoot(fd, place == SecretMount); err != nil {
			unix.Close(fd)
			return -1, err
		}
		return fd, nil
	}
	at, err := descend(path, self)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	if err := judge(at, checkLast, self); err != nil {
		return -1, err
	}
	return unix.Openat(at, ".", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// Path is the path that the directory was opened by, for messages.
func (d *Dir) Path() string { return d.path }

// Close closes the directory. It is idempotent.
func (d *Dir) Close() error {
	if err := d.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close directory: %w", err)
	}
	return nil
}

// OpenFile opens a file of the directory: flags are those of open(2), name is
// one component. A file that it creates gets mode 0600 whatever the umask. The
// error wraps fs.ErrNotExist, or ErrUnsafe where a rule refuses the file.
func (d *Dir) OpenFile(name string, flags int) (*os.File, error) {
	fd, err := d.open(name, flags)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", filepath.Join(d.path, name), err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.path, name)), nil
}

// Stat returns what the kernel says of a name, without opening or following
// it. It judges nothing: it is for finding out whether an opened file is still
// the one that has the name.
func (d *Dir) Stat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return st, fmt.Errorf("stat %q: %w", filepath.Join(d.path, name), err)
	}
	return st, nil
}

// maxReplaced bounds opening a file that is replaced all the time.
const maxReplaced = 100

// open opens a file. One that was replaced between the opening and the
// judgement has no link left; its successor is opened instead.
func (d *Dir) open(name string, flags int) (int, error) {
	for try := 0; ; try++ {
		fd, st, err := d.openOnce(name, flags)
		if err != nil {
			return -1, err
		}
		if st.Nlink == 0 && try < maxReplaced {
			unix.Close(fd)
			continue
		}
		if err := d.accept(fd, &st, flags); err != nil {
			unix.Close(fd)
			return -1, err
		}
		return fd, nil
	}
}

func (d *Dir) openOnce(name string, flags int) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return -1, st, errors.New("not a file name")
	}
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	if d.place != SecretMount {
		how.Flags |= unix.O_NOFOLLOW
		how.Resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	if flags&unix.O_CREAT != 0 {
		how.Mode = 0o600
	}
	fd, err := unix.Openat2(d.fd(), name, &how)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENXIO) {
		return -1, st, fmt.Errorf("%w: a link or special file: %w", ErrUnsafe, err)
	}
	if err != nil {
		return -1, st, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// accept judges an opened file.
func (d *Dir) accept(fd int, st *unix.Stat_t, flags int) error {
	if err := checkFile(st, d.self, d.place); err != nil {
		return err
	}
	if flags&unix.O_CREAT != 0 && st.Mode&0o600 != 0o600 {
		return unix.Fchmod(fd, 0o600)
	}
	return nil
}

// ReadFile reads a file of at most max bytes.
func (d *Dir) ReadFile(name string, max int64) ([]byte, error) {
	f, err := d.OpenFile(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(io.LimitReader(f, max+1)); err != nil {
		return nil, fmt.Errorf("read %q: %w", f.Name(), err)
	}
	if int64(b.Len()) > max {
		return nil, fmt.Errorf("read %q: more than %d bytes", f.Name(), max)
	}
	return b.Bytes(), nil
}

// CreateFile writes a new file whole: after a crash it is there with these
// bytes or not at all. A file of that name is an error that wraps
// fs.ErrExist, and stays as it was.
func (d *Dir) CreateFile(name string, data []byte) error {
	return d.write(name, data, unix.RENAME_NOREPLACE)
}

// ReplaceFile is CreateFile for a file that may exist already.
func (d *Dir) ReplaceFile(name string, data []byte) error {
	return d.write(name, data, 0)
}

func (d *Dir) write(name string, data []byte, flags uint) error {
	temp := "." + name + "." + rand.Text() + ".tmp"
	f, err := d.OpenFile(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = unix.Renameat2(d.fd(), temp, d.fd(), name, flags)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %q: %w", filepath.Join(d.path, name), err), d.Remove(temp))
	}
	return d.Sync()
}

func (d *Dir) fd() int { return int(d.file.Fd()) }

// Rename renames a file within the directory and replaces the one that has the
// new name.
func (d *Dir) Rename(old, new string) error {
	if err := unix.Renameat(d.fd(), old, d.fd(), new); err != nil {
		return fmt.Errorf("rename %q to %q in %q: %w", old, new, d.path, err)
	}
	return nil
}

// Remove removes a file of the directory; an absent one is fine.
func (d *Dir) Remove(name string) error {
	if err := unix.Unlinkat(d.fd(), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %q: %w", filepath.Join(d.path, name), err)
	}
	return nil
}

// Sync makes the directory's entries durable.
func (d *Dir) Sync() error {
	if err := d.file.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// Names lists the directory.
func (d *Dir) Names() ([]string, error) {
	fd, err := unix.Openat(d.fd(), ".", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", d.path, err)
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", d.path, err)
	}
	return names, nil
}

// lockPoll is how often a held lock is tried again.
const lockPoll = 2 * time.Millisecond

// Lock takes the exclusive lock on a file of the directory, creating it, and
// waits as long as the context lets it. The lock ends with the process.
func (d *Dir) Lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := d.OpenFile(name, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %q: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock %q: %w", f.Name(), context.Cause(ctx))
		case <-tick.C:
		}
	}
}
