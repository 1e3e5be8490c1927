package local

import (
	"context"
	"errors"
	"os"

	"github.com/proctor-project/proctor/sandbox"
)

// own gives the directory to the identity's host id.
func (e *Engine) own(_ context.Context, path string, owner sandbox.Identity) error {
	if e.euid != 0 && int(owner.Host) != e.euid {
		return errors.New("an ordinary user's subordinate ids are not supported yet")
	}
	return os.Lchown(path, int(owner.Host), int(owner.Host))
}

// removeTree removes the directory and everything in it.
func (e *Engine) removeTree(_ context.Context, path string) error {
	return os.RemoveAll(path)
}
