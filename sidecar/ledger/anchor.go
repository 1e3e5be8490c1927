package ledger

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
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

// Remembered is the launcher's memory of one place of control: the anchor and
// the public key chain.
type Remembered struct {
	Anchor Anchor          `json:"anchor"`
	Chain  json.RawMessage `json:"chain"`
}

const maxRemembered = 16 << 20

// Recall reads what Raise wrote; the error wraps fs.ErrNotExist at first use.
func Recall(d *safedir.Dir, name string) (Remembered, error) {
	b, err := d.ReadFile(name, maxRemembered)
	if err != nil {
		return Remembered{}, fmt.Errorf("read anchor: %w", err)
	}
	var r Remembered
	if err := strictjson.Unmarshal(b, &r, strictjson.Limits{Size: maxRemembered}); err != nil {
		return Remembered{}, fmt.Errorf("read anchor %q: %w", name, err)
	}
	if r.Anchor.Count == 0 || !isDigest(r.Anchor.Hash) || r.Anchor.ControlID == "" {
		return Remembered{}, fmt.Errorf("read anchor %q: not whole", name)
	}
	return r, nil
}

// Raise remembers a later moment of the same ledger, which a step of the
// supervisor proved to contain what was remembered when it started. Under its
// own lock the memory is never lowered: an earlier moment is left out without
// an error, since another launcher was faster. Another control, or another act
// of the same number, is an error that wraps ErrAnchor.
func Raise(ctx context.Context, d *safedir.Dir, name string, r Remembered) error {
	unlock, err := d.Lock(ctx, name+".lock")
	if err != nil {
		return fmt.Errorf("raise anchor: %w", err)
	}
	defer unlock()
	old, err := Recall(d, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case old.Anchor.ControlID != r.Anchor.ControlID:
		return fmt.Errorf("raise anchor: %w: control %q, known %q", ErrAnchor, r.Anchor.ControlID, old.Anchor.ControlID)
	case old.Anchor.Count == r.Anchor.Count && old.Anchor.Hash != r.Anchor.Hash:
		return fmt.Errorf("raise anchor: %w: act %d is another one", ErrAnchor, r.Anchor.Count)
	case old.Anchor.Count >= r.Anchor.Count:
		return nil
	}
	b, err := strictjson.Marshal(r)
	if err != nil {
		return fmt.Errorf("raise anchor: %w", err)
	}
	if err := d.ReplaceFile(name, append(b, '\n')); err != nil {
		return fmt.Errorf("raise anchor: %w", err)
	}
	return nil
}
