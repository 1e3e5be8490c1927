package steps

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/wire"
)

var errAnchorPair = errors.New("anchor without a public key chain")

// openRoot loads the root keys, and holds their chain against the one that the
// launcher remembers.
func openRoot(layout Layout, known *wire.Anchor) (*keys.Root, error) {
	root, err := keys.OpenRoot(layout.RootKeys, layout.RootRules)
	if err != nil {
		return nil, &RefusedError{Err: err, Hint: "proctor init"}
	}
	if known == nil {
		return root, nil
	}
	if len(known.Chain) == 0 {
		return nil, &RefusedError{Err: errAnchorPair}
	}
	was, err := keys.ParseChain(known.Chain)
	if err != nil {
		return nil, &RefusedError{Err: err}
	}
	if err := root.Chain().Extends(was); err != nil {
		return nil, &RefusedError{Err: err, Hint: "proctor control accept-restore"}
	}
	return root, nil
}

// openLedger opens the ledger with both signatures demanded, and holds it
// against the anchor.
func openLedger(layout Layout, root *keys.Root, known *wire.Anchor) (*ledger.Ledger, error) {
	v, err := root.Verifier(keys.DomainLedger, 0, "")
	if err != nil {
		return nil, err
	}
	return ledgerWith(layout, root.ControlID(), v, known)
}

func ledgerWith(layout Layout, control string, v ledger.Verifier, known *wire.Anchor) (*ledger.Ledger, error) {
	trust := ledger.Trust{ControlID: control, Verifier: v}
	if known == nil {
		known = layout.Known
	}
	if known != nil && known.ControlID != "" {
		trust.Anchor = &ledger.Anchor{ControlID: known.ControlID, Count: known.Count, Hash: known.Hash}
	}
	l, err := ledger.Open(layout.Ledger, layout.Rules, trust)
	if err != nil {
		hint := ""
		if errors.Is(err, ledger.ErrAnchor) {
			hint = "proctor control accept-restore"
		}
		return nil, &RefusedError{Err: err, Hint: hint}
	}
	return l, nil
}

// anchorOf is what the launcher is to remember.
func anchorOf(a ledger.Anchor, chain keys.Chain) (wire.Anchor, error) {
	b, err := chain.MarshalJSON()
	if err != nil {
		return wire.Anchor{}, fmt.Errorf("write chain: %w", err)
	}
	return wire.Anchor{ControlID: a.ControlID, Count: a.Count, Hash: a.Hash, Chain: json.RawMessage(b)}, nil
}
