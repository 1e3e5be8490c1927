package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/proctor-project/proctor/sandbox"
)

// Dirs are the parts of one home.
type Dirs struct{ Home string }

// Path is the directory of a part below the launcher's home.
func (d Dirs) Path(part sandbox.Part, session string) string {
	switch part {
	case sandbox.PartRootKeys:
		return filepath.Join(d.Home, "keys", "root")
	case sandbox.PartLedgerKeys:
		return filepath.Join(d.Home, "keys", "ledger")
	case sandbox.PartSession:
		return filepath.Join(d.Home, "control", "sessions", session)
	case sandbox.PartSockets:
		return filepath.Join(d.Home, "control", "sockets", session)
	default:
		return filepath.Join(d.Home, "control", string(part))
	}
}

// Part returns the bind mount of the part, read-only, at the part's target.
func (d Dirs) Part(part sandbox.Part, session string) sandbox.Mount {
	return sandbox.Mount{Kind: sandbox.MountBind, Source: d.Path(part, session), Target: part.Target()}
}

// check refuses a part that does not exist and a session id that would be
// more than one component of a path.
func check(part sandbox.Part, session string) error {
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

// Make makes the part's directory, with the part's mode, owned by the identity's host
// id. An existing one is an error and is left as it is.
func (d Dirs) Make(ctx context.Context, part sandbox.Part, session string, owner sandbox.Identity) error {
	if err := check(part, session); err != nil {
		return fmt.Errorf("make part: %w", err)
	}
	path := d.Path(part, session)
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
		err = own(ctx, path, owner)
	}
	if err != nil {
		return fmt.Errorf("make part %q: %w", part, errors.Join(err, os.Remove(path)))
	}
	return nil
}

// Remove removes the part and everything in it. An absent one is fine.
func (d Dirs) Remove(ctx context.Context, part sandbox.Part, session string) error {
	if err := check(part, session); err != nil {
		return fmt.Errorf("remove part: %w", err)
	}
	if err := RemoveTree(ctx, d.Path(part, session)); err != nil {
		return fmt.Errorf("remove part %q: %w", part, err)
	}
	return nil
}

// Has says whether the part's directory exists.
func (d Dirs) Has(part sandbox.Part, session string) (bool, error) {
	if err := check(part, session); err != nil {
		return false, fmt.Errorf("look for part: %w", err)
	}
	st, err := os.Lstat(d.Path(part, session))
	switch {
	case os.IsNotExist(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for part %q: %w", part, err)
	case !st.IsDir():
		return false, fmt.Errorf("look for part %q: %s is not a directory", part, d.Path(part, session))
	}
	return true, nil
}

// Closed are the directories that no other mount may be, hold or lie under.
func (d Dirs) Closed() []string {
	return []string{filepath.Join(d.Home, "keys"), filepath.Join(d.Home, "control")}
}

// Is reports whether a mount is one of the parts, at its own place.
func (d Dirs) Is(m sandbox.Mount) bool {
	parts := []sandbox.Part{
		sandbox.PartRootKeys, sandbox.PartLedgerKeys, sandbox.PartLedger, sandbox.PartCache, sandbox.PartSession, sandbox.PartSockets,
	}
	for _, p := range parts {
		session := ""
		if p.PerSession() {
			session = filepath.Base(m.Source)
		}
		if m.Target == p.Target() && m.Source == d.Path(p, session) {
			return true
		}
	}
	return false
}
