package inside

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Lay is one operator's file that is put over the product in a check's
// throw-away layer. From is a file that only the operator wrote; To is a clean
// relative path below Dir.
type Lay struct{ From, Dir, To string }

// ParseLay reads FROM=DIR=TO. None of the three may hold "=": the launcher
// names From itself, and refuses a product path or target with one.
func ParseLay(args []string) ([]Lay, error) {
	var all []Lay
	for _, a := range args {
		p := strings.Split(a, "=")
		if len(p) != 3 || !path.IsAbs(p[0]) || !path.IsAbs(p[1]) || !localPath(p[2]) {
			return nil, fmt.Errorf("--lay %q is not FROM=DIR=TO", a)
		}
		all = append(all, Lay{p[0], p[1], p[2]})
	}
	return all, nil
}

func localPath(p string) bool {
	return p != "" && p != "." && !path.IsAbs(p) && path.Clean(p) == p && p != ".." && !strings.HasPrefix(p, "../")
}

func layAll(all []Lay) error {
	for _, l := range all {
		if err := l.put(); err != nil {
			return fmt.Errorf("lay %q over the product: %w", l.To, err)
		}
	}
	return nil
}

// put replaces whatever the agent left at the place: a link, a special file or
// a directory on the way is removed, never followed.
func (l Lay) put() error {
	src, err := os.Open(l.From)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	dir, err := unix.Open(l.Dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	parts := strings.Split(l.To, "/")
	for _, name := range parts[:len(parts)-1] {
		next, err := enter(dir, name)
		if err != nil {
			return err
		}
		_ = unix.Close(dir)
		dir = next
	}
	name := parts[len(parts)-1]
	if err := clear(dir, name); err != nil {
		return err
	}
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(info.Mode().Perm()|0o600))
	if err != nil {
		return err
	}
	dst := os.NewFile(uintptr(fd), name)
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// enter opens a directory below dir, making it where it is missing or where
// something else stands in its place.
func enter(dir int, name string) (int, error) {
	const flags = unix.O_DIRECTORY | unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if err == nil {
		return fd, unix.Fchmod(fd, 0o755) // the check's own identity owns it
	}
	if !errors.Is(err, unix.ENOENT) {
		if err := unix.Unlinkat(dir, name, 0); err != nil {
			return -1, err
		}
	}
	if err := unix.Mkdirat(dir, name, 0o755); err != nil {
		return -1, err
	}
	return unix.Openat(dir, name, flags, 0)
}

// clear removes what stands at name: a file or link is unlinked, a directory
// is emptied first, without following links.
func clear(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return root.RemoveAll(name)
}
