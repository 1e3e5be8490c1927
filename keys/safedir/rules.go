package safedir

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Place says what kind of directory is opened, and with it whom the rules
// trust. The zero value is the strictest.
type Place int

const (
	// Host is a directory of the host: it belongs to the process's own user,
	// others cannot write it, and the same holds for every parent (root may
	// own those; others may write a sticky one).
	Host Place = iota
	// Mount is the root of a mount that only a supervisor's container has. Its
	// parents belong to the container and are not judged, nor is its own owner
	// (a Kubernetes emptyDir is root's and 2777); its files are.
	Mount
	// SecretMount is a read-only mount that only a supervisor's container has,
	// laid out as a Kubernetes Secret: links are followed within the mount,
	// and files may belong to root and be readable by their group.
	SecretMount
)

// Rules are how a directory and its files are judged.
type Rules struct {
	Place Place
}

// ErrUnsafe is wrapped by every refusal of a file or directory that another
// user could have prepared or changed.
var ErrUnsafe = errors.New("not safe")

type identity struct{ uid, gid uint32 }

// checkParent judges a directory on the way.
func checkParent(st *unix.Stat_t, self identity) error {
	if st.Uid != 0 && st.Uid != self.uid {
		return fmt.Errorf("%w: owned by uid %d", ErrUnsafe, st.Uid)
	}
	if st.Mode&unix.S_ISVTX != 0 {
		return nil
	}
	return checkWritable(st, self)
}

// checkLast judges the directory itself.
func checkLast(st *unix.Stat_t, self identity) error {
	if st.Uid != self.uid {
		return fmt.Errorf("%w: owned by uid %d, not by uid %d", ErrUnsafe, st.Uid, self.uid)
	}
	return checkWritable(st, self)
}

// checkWritable refuses what others can write. A user-private group, which the
// umask 002 of some systems relies on, has the user's own number.
func checkWritable(st *unix.Stat_t, self identity) error {
	if st.Mode&0o002 != 0 {
		return fmt.Errorf("%w: writable by others (mode %04o); remedy: chmod o-w", ErrUnsafe, st.Mode&0o7777)
	}
	private := st.Uid == self.uid && st.Gid == self.gid && st.Gid == st.Uid
	if st.Mode&0o020 != 0 && !private {
		return fmt.Errorf("%w: writable by its group (mode %04o); remedy: chmod g-w", ErrUnsafe, st.Mode&0o7777)
	}
	return nil
}

// checkFile judges an opened file.
func checkFile(st *unix.Stat_t, self identity, place Place) error {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%w: not a regular file", ErrUnsafe)
	}
	if st.Nlink != 1 {
		return fmt.Errorf("%w: %d links", ErrUnsafe, st.Nlink)
	}
	forbidden := uint32(0o077)
	if place == SecretMount {
		forbidden = 0o037
	}
	if st.Mode&forbidden != 0 {
		return fmt.Errorf("%w: mode %04o; remedy: chmod 600", ErrUnsafe, st.Mode&0o7777)
	}
	if st.Uid != self.uid && (place != SecretMount || st.Uid != 0) {
		return fmt.Errorf("%w: owned by uid %d, not by uid %d", ErrUnsafe, st.Uid, self.uid)
	}
	return nil
}
