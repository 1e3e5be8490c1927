package local

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/userns"
)

// partOwner is the id that a part's owner has in the namespace in which an
// ordinary user gives it away and takes it back.
const partOwner = 1

// own gives the directory to the identity's host id. An ordinary user can give
// it only to one of that user's subordinate ids.
func (e *Engine) own(ctx context.Context, path string, owner sandbox.Identity) error {
	if e.euid != 0 && int(owner.Host) == e.euid {
		return nil
	}
	return userns.Chown(ctx, e.maps(owner.Host), path, partOwner)
}

func (e *Engine) maps(owner uint32) []userns.Map {
	group := uint32(os.Getegid())
	return []userns.Map{{Inside: 0, Host: uint32(e.euid), Group: &group}, {Inside: partOwner, Host: owner}}
}

// removeTree removes the directory and everything in it, which belongs to the
// launcher or to the directory's owner. An absent one is fine.
func (e *Engine) removeTree(ctx context.Context, path string) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if e.euid == 0 || int(st.Uid) == e.euid {
		return os.RemoveAll(path)
	}
	return userns.RemoveAll(ctx, e.maps(st.Uid), path)
}
