package home

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/gofrs/flock"

	"github.com/proctor-project/proctor/sidecar/wire"
)

// Anchor is what the launcher last saw of the ledger at its place, or nil
// before the first use.
func (h *Home) Anchor(place string) (*wire.Anchor, error) {
	var a wire.Anchor
	err := readJSON(h.Path("anchors", place+".json"), &a)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("anchor of %s: %w", place, err)
	}
	return &a, nil
}

// RaiseAnchor remembers a newer view of the ledger. It never lowers the count,
// whichever of several launchers comes last, and refuses another control id:
// that is a step's answer that does not belong to this place.
func (h *Home) RaiseAnchor(place string, next wire.Anchor) error {
	return h.lockedAnchor(place, func(now *wire.Anchor) (bool, error) {
		if now != nil && now.ControlID != next.ControlID {
			return false, fmt.Errorf("anchor of %s: control id %s, and it was %s", place, next.ControlID, now.ControlID)
		}
		if now != nil && now.Count == next.Count && now.Hash != next.Hash {
			return false, fmt.Errorf("anchor of %s: act %d is another one than it was", place, next.Count)
		}
		return now == nil || next.Count > now.Count, nil
	}, next)
}

// ResetAnchor accepts an older or another ledger after a legitimate restore.
func (h *Home) ResetAnchor(place string, next wire.Anchor) error {
	return h.lockedAnchor(place, func(*wire.Anchor) (bool, error) { return true, nil }, next)
}

func (h *Home) lockedAnchor(place string, replaces func(now *wire.Anchor) (bool, error), next wire.Anchor) error {
	lock := flock.New(h.Path("anchors", place+".lock"), flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock anchor of %s: %w", place, err)
	}
	defer func() { _ = lock.Unlock() }()
	now, err := h.Anchor(place)
	if err != nil {
		return err
	}
	if ok, err := replaces(now); err != nil || !ok {
		return err
	}
	return writeJSON(h.Path("anchors", place+".json"), next)
}
