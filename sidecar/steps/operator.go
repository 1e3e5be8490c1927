package steps

import (
	"context"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// operator is the ledger as the operator's verbs have it: the keys to add to it,
// and never the root key.
type operator struct {
	layout Layout
	keys   *keys.LedgerKeys
	ledger *ledger.Ledger
	head   *ledger.Anchor // after the last act; nil before one
}

func openOperator(layout Layout) (*operator, error) {
	lk, err := keys.OpenLedgerKeys(layout.LedgerKeys, layout.LedgerKeyRules)
	if err != nil {
		return nil, &RefusedError{Err: err, Hint: "proctor init"}
	}
	v, err := lk.Verifier()
	if err != nil {
		return nil, err
	}
	l, err := ledgerWith(layout, lk.Chain().ControlID(), v, nil)
	if err != nil {
		return nil, err
	}
	return &operator{layout: layout, keys: lk, ledger: l}, nil
}

func (o *operator) close() { _ = o.ledger.Close() }

func (o *operator) act(ctx context.Context, acts ...ledger.Entry) ([]ledger.Entry, error) {
	did, err := o.ledger.Act(ctx, o.keys.Signer(), acts...)
	return o.did(did, err)
}

func (o *operator) update(ctx context.Context, decide func(*ledger.State) ([]ledger.Entry, error)) ([]ledger.Entry, error) {
	did, err := o.ledger.Update(ctx, o.keys.Signer(), decide)
	return o.did(did, err)
}

func (o *operator) did(did ledger.Acted, err error) ([]ledger.Entry, error) {
	if err != nil {
		return nil, &RefusedError{Err: err} // nothing was recorded
	}
	o.head = &did.Anchor
	return did.Entries, nil
}

// anchor is what the launcher is to remember: the ledger after the last act, or
// as it is.
func (o *operator) anchor() (wire.Anchor, error) {
	if o.head == nil {
		state, err := o.view()
		if err != nil {
			return wire.Anchor{}, err
		}
		a := state.Anchor()
		o.head = &a
	}
	return anchorOf(*o.head, o.keys.Chain())
}

// view is the state that a question is answered from.
func (o *operator) view() (*ledger.State, error) {
	state, err := o.ledger.View()
	if err != nil {
		return nil, &RefusedError{Err: err}
	}
	return state, nil
}

// viewByLedgerKeys is the state for a question that needs nothing else.
func viewByLedgerKeys(layout Layout) (*ledger.State, keys.Chain, error) {
	o, err := openOperator(layout)
	if err != nil {
		return nil, keys.Chain{}, err
	}
	defer o.close()
	state, err := o.view()
	return state, o.keys.Chain(), err
}
