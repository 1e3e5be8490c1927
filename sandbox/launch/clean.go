package launch

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/renameio/v2"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/home"
)

// Clean ends what dead launchers left behind: it touches only sessions whose
// lock is free and that never ended. It returns their ids.
func (l *Launcher) Clean(ctx context.Context) ([]string, error) {
	ids, err := l.cfg.Home.Sessions()
	if err != nil {
		return nil, err
	}
	var cleaned []string
	for _, id := range ids {
		st, err := l.cfg.Home.State(id)
		if err == nil && (st.Phase == "ended" || st.Engine != "" && st.Engine != l.place.Engine) {
			continue
		}
		did, err := l.cleanOne(ctx, id)
		if err != nil {
			return cleaned, fmt.Errorf("clean up session %s: %w", id, err)
		}
		if did {
			cleaned = append(cleaned, id)
		}
	}
	return cleaned, nil
}

func (l *Launcher) cleanOne(ctx context.Context, id string) (bool, error) {
	s, err := l.cfg.Home.Lock(ctx, id)
	if errors.Is(err, home.ErrBusy) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = s.Unlock() }()
	if s.State.Phase == "ended" {
		return false, nil
	}
	if _, err := l.cfg.Engine.Sweep(ctx, id); err != nil {
		return false, err
	}
	if err := l.cfg.Engine.RemovePart(ctx, sandbox.PartSockets, id); err != nil {
		return false, err
	}
	switch s.State.Phase {
	case "", "new", "stage", "open":
		return true, l.forget(ctx, s)
	}
	s.State.Session, s.State.Schema = id, "proctor/session/v1"
	s.State.Phase = "ended"
	if s.State.Verdict == "" { // else its own launcher came as far as to say it
		s.State.Verdict = "INDETERMINATE"
	}
	return true, s.Save()
}

// Remove deletes a session: its stage, its part of control and what the
// launcher knows of it. Its seals stay.
func (l *Launcher) Remove(ctx context.Context, id string) error {
	s, err := l.cfg.Home.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer func() { _ = s.Unlock() }()
	if _, err := l.cfg.Engine.Sweep(ctx, id); err != nil {
		return err
	}
	if err := l.cfg.Engine.RemovePart(ctx, sandbox.PartSockets, id); err != nil {
		return err
	}
	return l.forget(ctx, s)
}

func replaceFile(path string, data []byte, mode os.FileMode) error {
	return renameio.WriteFile(path, data, mode, renameio.IgnoreUmask())
}
