package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/proctor-project/proctor/sandbox"
)

// partPath is the directory of a part below the launcher's home.
func (e *Engine) partPath(part sandbox.Part, session string) string {
	switch part {
	case sandbox.PartRootKeys:
		return filepath.Join(e.cfg.Home, "keys", "root")
	case sandbox.PartLedgerKeys:
		return filepath.Join(e.cfg.Home, "keys", "ledger")
	case sandbox.PartSession:
		return filepath.Join(e.cfg.Home, "control", "sessions", session)
	case sandbox.PartSockets:
		return filepath.Join(e.cfg.Home, "control", "sockets", session)
	default:
		return filepath.Join(e.cfg.Home, "control", string(part))
	}
}

// Part returns the bind mount of the part, read-only, at the part's target.
func (e *Engine) Part(part sandbox.Part, session string) sandbox.Mount {
	return sandbox.Mount{Kind: sandbox.MountBind, Source: e.partPath(part, session), Target: part.Target()}
}

// checkPart refuses a part that does not exist and a session id that would be
// more than one component of a path.
func checkPart(part sandbox.Part, session string) error {
	switch part {
	case sandbox.PartRootKeys, sandbox.PartLedgerKeys, sandbox.PartLedger, sandbox.PartCache:
		if session != "" {
			return fmt.Errorf("part %q has no session", part)
		}
		return nil
	case sandbox.PartSession, sandbox.PartSockets:
		if !sandbox.ValidSession(session) {
			return fmt.Errorf("part %q: session id %q is not valid", part, session)
		}
		return nil
	default:
		return fmt.Errorf("unknown part %q", part)
	}
}

// MakePart makes the part's directory, with the part's mode, owned by the identity's host
// id. An existing one is an error and is left as it is.
func (e *Engine) MakePart(ctx context.Context, part sandbox.Part, session string, owner sandbox.Identity) error {
	if err := checkPart(part, session); err != nil {
		return fmt.Errorf("make part: %w", err)
	}
	path := e.partPath(part, session)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make part %q: %w", part, err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return fmt.Errorf("make part %q: %w", part, err)
	}
	// Still the launcher's own: whatever the umask, and before the owner is
	// another. The parent is 0700.
	err := os.Chmod(path, os.FileMode(part.Mode()))
	if err == nil {
		err = e.own(ctx, path, owner)
	}
	if err != nil {
		return fmt.Errorf("make part %q: %w", part, errors.Join(err, os.Remove(path)))
	}
	return nil
}

// RemovePart removes the part and everything in it. An absent one is fine.
func (e *Engine) RemovePart(ctx context.Context, part sandbox.Part, session string) error {
	if err := checkPart(part, session); err != nil {
		return fmt.Errorf("remove part: %w", err)
	}
	if err := e.removeTree(ctx, e.partPath(part, session)); err != nil {
		return fmt.Errorf("remove part %q: %w", part, err)
	}
	return nil
}

// HasPart says whether the part's directory exists.
func (e *Engine) HasPart(_ context.Context, part sandbox.Part, session string) (bool, error) {
	if err := checkPart(part, session); err != nil {
		return false, fmt.Errorf("look for part: %w", err)
	}
	st, err := os.Lstat(e.partPath(part, session))
	switch {
	case os.IsNotExist(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for part %q: %w", part, err)
	case !st.IsDir():
		return false, fmt.Errorf("look for part %q: %s is not a directory", part, e.partPath(part, session))
	}
	return true, nil
}
