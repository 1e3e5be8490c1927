package registry

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kept is one archive of the cache.
type kept struct {
	name string
	size int64
	used time.Time
}

// prune removes what was not used for the longest until the cache is within its
// bound. Only one at a time does, of all supervisors that share the directory,
// and what one of them is giving out stays.
func (c *Cache) prune(dir *os.File) error {
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock cache: %w", err)
	}
	defer func() { _ = unix.Flock(int(dir.Fd()), unix.LOCK_UN) }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("read cache: %w", err)
	}
	var all []kept
	total := int64(0)
	for _, name := range names {
		st, err := c.root.Lstat("sha512/" + name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read cache: %w", err)
		}
		all = append(all, kept{name, st.Size(), st.ModTime()})
		total += st.Size()
	}
	slices.SortFunc(all, func(a, b kept) int {
		if by := a.used.Compare(b.used); by != 0 {
			return by
		}
		return strings.Compare(a.name, b.name)
	})
	for _, k := range all {
		if total <= c.most {
			break
		}
		removed, err := c.removeUnheld("sha512/" + k.name)
		if err != nil {
			return err
		}
		if removed {
			total -= k.size
		}
	}
	return nil
}

// removeUnheld removes an archive that nobody holds.
func (c *Cache) removeUnheld(name string) (bool, error) {
	f, err := c.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, fmt.Errorf("prune cache: %w", err)
	}
	defer func() { _ = f.Close() }()
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("prune cache: %w", err)
	}
	if err := c.root.Remove(name); err != nil {
		return false, fmt.Errorf("prune cache: %w", err)
	}
	return true, nil
}
