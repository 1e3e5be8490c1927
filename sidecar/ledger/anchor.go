package ledger

import (
	"encoding/hex"
	"errors"
	"fmt"
)

// Anchor is what is remembered of a ledger outside control: a ledger that does
// not contain it is older, or another one.
type Anchor struct {
	ControlID string `json:"control_id"`
	Count     uint64 `json:"count"`
	Hash      string `json:"hash"`
}

var (
	// ErrAnchor is wrapped when a ledger does not contain what is remembered.
	ErrAnchor = errors.New("the ledger is older than, or another than, the one that was known here")
	// ErrNoLedger is wrapped when the directory holds none.
	ErrNoLedger = errors.New("no ledger here")
)

// Contains refuses an anchor that is not a moment of this ledger.
func (s *State) Contains(a Anchor) error {
	switch {
	case a.ControlID != s.control:
		return fmt.Errorf("%w: control %q, known %q", ErrAnchor, s.control, a.ControlID)
	case a.Count == 0 || a.Count > s.at.count:
		return fmt.Errorf("%w: %d acts, known %d", ErrAnchor, s.at.count, a.Count)
	case hex.EncodeToString(s.hashes[a.Count-1][:]) != a.Hash:
		return fmt.Errorf("%w: act %d is another one", ErrAnchor, a.Count)
	}
	return nil
}
