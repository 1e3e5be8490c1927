package layer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// minInodes keeps the smallest layers usable.
const minInodes = 1024

// Layer is one throw-away layer. Its upper side is a tmpfs of the layer's size
// that the launcher mounts, so that the size is a limit and nothing reaches a
// disk. The lower side is named through a link: engines and the kernel split an
// overlay's options at ":" and ",", and a path may hold either.
type Layer struct {
	Dir string // lower (link), rw (tmpfs with upper and work)
}

// Options are the overlay's. The default (trusted) attributes are used: no
// container can write those.
func (l Layer) Options() []string {
	return []string{
		"lowerdir=" + filepath.Join(l.Dir, "lower"), "upperdir=" + filepath.Join(l.Dir, "rw", "upper"), "workdir=" + filepath.Join(l.Dir, "rw", "work"),
	}
}

// Prepare makes the layer's directory. Owner and mode of an overlay's root are
// those of the upper directory, so they are copied from the source.
func (l Layer) Prepare(source string, size int64) error {
	var st unix.Stat_t
	if err := unix.Lstat(source, &st); err != nil {
		return fmt.Errorf("stat %q: %w", source, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("source %q is not a directory", source)
	}
	rw := filepath.Join(l.Dir, "rw")
	if err := errors.Join(os.MkdirAll(filepath.Dir(l.Dir), 0o700), os.Mkdir(l.Dir, 0o700)); err != nil {
		return err
	}
	if err := os.Symlink(source, filepath.Join(l.Dir, "lower")); err != nil {
		return err
	}
	if err := os.Mkdir(rw, 0o700); err != nil {
		return err
	}
	options := fmt.Sprintf("mode=0700,size=%d,nr_inodes=%d", size, max(minInodes, size/4096))
	if err := unix.Mount("proctor-layer", rw, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	upper := filepath.Join(rw, "upper")
	if err := errors.Join(os.Mkdir(upper, 0o700), os.Mkdir(filepath.Join(rw, "work"), 0o700)); err != nil {
		return err
	}
	return errors.Join(os.Lchown(upper, int(st.Uid), int(st.Gid)), os.Chmod(upper, os.FileMode(st.Mode&0o777)))
}

// Discard removes what Prepare made; what is not there is fine.
func (l Layer) Discard() error {
	rw := filepath.Join(l.Dir, "rw")
	err := unix.Unmount(rw, unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount layer %q: %w", rw, err)
	}
	// Only what Prepare made: never a walk, the tmpfs is gone.
	for _, p := range []string{rw, filepath.Join(l.Dir, "lower"), l.Dir} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove layer: %w", err)
		}
	}
	_ = os.Remove(filepath.Dir(l.Dir)) // the session's, once its last layer is gone
	return nil
}
