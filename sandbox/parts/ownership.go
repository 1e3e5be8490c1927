package parts

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/userns"
)

// Owner is the id that a part's owner has in the namespace in which an
// ordinary user gives it away and takes it back.
const Owner = 1

// own gives the directory to the identity's host id. An ordinary user can give
// it only to one of that user's subordinate ids.
func own(ctx context.Context, path string, owner sandbox.Identity) error {
	if os.Geteuid() != 0 && int(owner.Host) == os.Geteuid() {
		return nil
	}
	return userns.Chown(ctx, Maps(owner.Host), path, Owner)
}

// Maps are the launcher's id and the owner's, for what has to be done as both.
func Maps(owner uint32) []userns.Map {
	group := uint32(os.Getegid())
	return []userns.Map{{Inside: 0, Host: uint32(os.Geteuid()), Group: &group}, {Inside: Owner, Host: owner}}
}

// RemoveTree removes the directory and everything in it, which belongs to the
// launcher or to the directory's owner. An absent one is fine.
func RemoveTree(ctx context.Context, path string) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if os.Geteuid() == 0 || int(st.Uid) == os.Geteuid() {
		return os.RemoveAll(path)
	}
	return userns.RemoveAll(ctx, Maps(st.Uid), path)
}
