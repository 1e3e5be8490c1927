package userns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Chown gives the directory to the id, user and group, that the maps have at
// inside. Root does it directly.
func Chown(ctx context.Context, maps []Map, dir string, inside uint32) error {
	f, err := openDir(dir)
	if err != nil {
		return fmt.Errorf("change owner: %w", err)
	}
	defer f.Close()
	for _, m := range maps {
		if m.Inside != inside {
			continue
		}
		if os.Geteuid() == 0 {
			return unix.Fchownat(int(f.Fd()), "", int(m.Host), int(m.group()), unix.AT_EMPTY_PATH)
		}
		return runSelf(ctx, maps, f, nameChown, strconv.FormatUint(uint64(inside), 10))
	}
	return fmt.Errorf("change owner: id %d is not mapped", inside)
}

// RemoveAll removes the directory with everything in it, also where that
// belongs to the mapped ids. The directory must lie in one of the caller's. An
// absent one is fine.
func RemoveAll(ctx context.Context, maps []Map, dir string) error {
	if os.Geteuid() == 0 {
		return os.RemoveAll(dir)
	}
	f, err := openDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	defer f.Close()
	if err := runSelf(ctx, maps, f, nameRemove); err != nil {
		return err
	}
	return os.Remove(dir)
}

// openDir is a handle that needs no right to read: the directory may be mode
// 0700 of another id.
func openDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// runSelf runs this very program as one of the children that Child knows.
func runSelf(ctx context.Context, maps []Map, dir *os.File, name string, args ...string) error {
	self, err := os.OpenFile("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer self.Close()
	var said bytes.Buffer
	c := Config{Maps: maps, Argv: append([]string{name}, args...), Stderr: &said, ExtraFiles: []*os.File{dir}}
	if err := c.outcome(ctx, runAsUser(ctx, c, self)); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}
