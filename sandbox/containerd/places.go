package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"
)

// placesDir is where a container's root is mounted while places are made in it.
const placesDir = "root"

// makePlaces makes in the container's root what runc makes by itself and
// gVisor's gofer, which is not the root's owner, cannot: the places of the
// mounts, and the working directory. An image cannot move them by a link.
func (e *Engine) makePlaces(ctx context.Context, c *Container) (err error) {
	record, err := c.container.Info(ctx)
	if err != nil {
		return err
	}
	mounts, err := e.api.SnapshotService(record.Snapshotter).Mounts(ctx, record.SnapshotKey)
	if err != nil {
		return err
	}
	at := filepath.Join(c.place.dir, placesDir)
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	if err := mount.All(mounts, at); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	defer func() { err = errors.Join(err, unmountPlaces(c.place.dir)) }()
	root, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	errs := []error{makeDir(root, c.spec.Dir)}
	for _, m := range c.config.Mounts {
		st, err := os.Stat(m.Source)
		if m.Type != "bind" || err == nil && st.IsDir() {
			errs = append(errs, makeDir(root, m.Destination))
		} else {
			errs = append(errs, err, makeFile(root, m.Destination))
		}
	}
	return errors.Join(errs...)
}

// makeDir makes a directory and those above it, of the root's owner.
func makeDir(root *os.Root, path string) error {
	at := "."
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		at = filepath.Join(at, name)
		st, err := root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			if err := root.Mkdir(at, 0o755); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if !st.IsDir() {
			return fmt.Errorf("in the image, on the way to %s, /%s is not a directory", path, at)
		}
	}
	return nil
}

func makeFile(root *os.Root, path string) error {
	if err := makeDir(root, filepath.Dir(path)); err != nil {
		return err
	}
	at := strings.Trim(path, "/")
	st, err := root.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return root.WriteFile(at, nil, 0o644)
	case err == nil && !st.Mode().IsRegular():
		return fmt.Errorf("in the image, %s is not a file", path)
	}
	return err
}

// unmountPlaces also does where there is nothing mounted.
func unmountPlaces(dir string) error {
	err := unix.Unmount(filepath.Join(dir, placesDir), unix.UMOUNT_NOFOLLOW)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("unmount the root: %w", err)
}
