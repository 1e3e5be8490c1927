package safedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many links are followed on the way, as in path_resolution(7).
const maxLinks = 40

// descend opens an absolute path component by component and judges every
// directory on the way.
func descend(path string, self identity) (int, error) {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /: %w", err)
	}
	// ".." is taken out of the text before anything is opened, as the shell's
	// cd does; a ".." in a link's target is refused below.
	todo := split(filepath.Clean(path))
	at, links := "/", 0
	for len(todo) > 0 {
		if err := judge(fd, checkParent, self); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("directory %q: %w", at, err)
		}
		name := todo[0]
		todo = todo[1:]
		next, target, err := step(fd, name, self)
		if err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("open %q in %q: %w", name, at, err)
		}
		if target == "" {
			unix.Close(fd)
			fd, at = next, filepath.Join(at, name)
			continue
		}
		if links++; links > maxLinks {
			unix.Close(fd)
			return -1, fmt.Errorf("open %q: %w", path, unix.ELOOP)
		}
		todo = append(split(target), todo...)
		if filepath.IsAbs(target) {
			unix.Close(fd)
			at = "/"
			if fd, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				return -1, fmt.Errorf("open /: %w", err)
			}
		}
	}
	return fd, nil
}

func split(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

// step opens one component. For a link it returns the target instead.
func step(dir int, name string, self identity) (fd int, target string, err error) {
	fd, err = unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, "", err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return fd, "", nil
	case unix.S_IFLNK:
		defer unix.Close(fd)
		if st.Uid != 0 && st.Uid != self.uid {
			return -1, "", fmt.Errorf("%w: link owned by uid %d", ErrUnsafe, st.Uid)
		}
		b := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, "", b)
		if err != nil {
			return -1, "", err
		}
		if n == 0 || n == len(b) {
			return -1, "", errors.New("link too long")
		}
		return -1, string(b[:n]), nil
	default:
		unix.Close(fd)
		return -1, "", unix.ENOTDIR
	}
}

func judge(fd int, check func(*unix.Stat_t, identity) error, self identity) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return check(&st, self)
}

// requireMountRoot refuses a directory that is not the root of a mount, or, if
// asked, of a read-only one. STATX_ATTR_MOUNT_ROOT exists since Linux 5.8.
func requireMountRoot(fd int, readOnly bool) error {
	var sx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &sx); err != nil {
		return fmt.Errorf("statx: %w", err)
	}
	if sx.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return fmt.Errorf("%w: this kernel does not say what is a mount", ErrUnsafe)
	}
	if sx.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return fmt.Errorf("%w: not the root of a mount", ErrUnsafe)
	}
	if !readOnly {
		return nil
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("statfs: %w", err)
	}
	if fs.Flags&unix.ST_RDONLY == 0 {
		return fmt.Errorf("%w: the mount is not read-only", ErrUnsafe)
	}
	return nil
}

// Make creates the directory and each missing parent with mode 0700, whatever
// the umask, and changes none that exists. Every directory that exists is
// judged as Open with Host does. Path must be absolute.
func Make(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("make directory %q: not an absolute path", path)
	}
	self := processIdentity()
	clean := filepath.Clean(path)
	missing := []string{}
	for dir := clean; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); err == nil {
			return makeBelow(dir, missing, self)
		} else if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("make directory: %w", err)
		}
		missing = append([]string{filepath.Base(dir)}, missing...)
	}
}

func makeBelow(dir string, names []string, self identity) error {
	fd, err := descend(dir, self)
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { unix.Close(fd) }()
	for _, name := range names {
		if err := judge(fd, checkParent, self); err != nil {
			return fmt.Errorf("make directory in %q: %w", dir, err)
		}
		// Mode 0700 goes through the umask, which can only take bits away, so
		// that there is no moment at which the directory is more open.
		if err := unix.Mkdirat(fd, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("make directory %q in %q: %w", name, dir, err)
		} else if err == nil {
			if err := fixMode(fd, name); err != nil {
				return err
			}
		}
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %q in %q: %w", name, dir, err)
		}
		unix.Close(fd)
		fd, dir = next, filepath.Join(dir, name)
	}
	return nil
}

// fixMode gives a directory of our own making the bits that a strange umask
// took. The parent is safe, so the name is still ours.
func fixMode(fd int, name string) error {
	if err := unix.Fchmodat(fd, name, 0o700, 0); err != nil {
		return fmt.Errorf("set mode of %q: %w", name, err)
	}
	return nil
}
