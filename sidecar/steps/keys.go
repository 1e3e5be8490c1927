package steps

import (
	"context"
	"io"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Init makes the first root key, the ledger's keys and the ledger's first act.
func Init(ctx context.Context, layout Layout, by string, stdout io.Writer) error {
	root, err := keys.CreateRoot(layout.RootKeys, layout.Rules)
	if err != nil {
		return &RefusedError{Err: err}
	}
	if err := root.WriteLedgerKeys(layout.LedgerKeys, layout.Rules); err != nil {
		return err
	}
	signer, err := root.Signer(keys.DomainLedger, root.Current(), "")
	if err != nil {
		return err
	}
	v, err := root.Verifier(keys.DomainLedger, 0, "")
	if err != nil {
		return err
	}
	l, acted, err := ledger.Create(ctx, layout.Ledger, layout.Rules, ledger.Trust{ControlID: root.ControlID(), Verifier: v}, signer, by, time.Now())
	if err != nil {
		return &RefusedError{Err: err}
	}
	defer func() { _ = l.Close() }()
	return keysReply(acted.Anchor, root.Chain(), stdout)
}

// Rotate makes a new epoch: its key, its ledger keys, its act.
func Rotate(ctx context.Context, layout Layout, reason keys.Reason, by string, stdout io.Writer) error {
	root, err := openRoot(layout, nil)
	if err != nil {
		return err
	}
	l, err := openLedger(layout, root, nil)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	next, err := root.Rotate(reason)
	if err != nil {
		return err
	}
	signer, err := next.Signer(keys.DomainLedger, next.Current(), "")
	if err != nil {
		return err
	}
	v, err := next.Verifier(keys.DomainLedger, 0, "")
	if err != nil {
		return err
	}
	acted, err := l.Rotate(ctx, signer, v, ledger.Entry{
		Time: time.Now(), By: by, Kind: ledger.KindRotate,
		Rotate: &ledger.RotateAct{Epoch: next.Current(), Reason: reason},
	})
	if err != nil {
		return err
	}
	if err := next.WriteLedgerKeys(layout.LedgerKeys, layout.Rules); err != nil {
		return err
	}
	return keysReply(acted.Anchor, next.Chain(), stdout)
}

// Keys answers with the epochs and the ledger's head, by the ledger's keys alone.
func Keys(_ context.Context, layout Layout, stdout io.Writer) error {
	state, chain, err := viewByLedgerKeys(layout)
	if err != nil {
		return err
	}
	return keysReply(state.Anchor(), chain, stdout)
}

func keysReply(a ledger.Anchor, chain keys.Chain, stdout io.Writer) error {
	anchor, err := anchorOf(a, chain)
	if err != nil {
		return err
	}
	reply := wire.KeysReply{Schema: "proctor/keys/v1", Anchor: anchor, Epochs: []wire.Epoch{}}
	for e := keys.Epoch(1); e <= chain.Current(); e++ {
		p, ok := chain.Public(keys.DomainSeal, e)
		if !ok {
			continue
		}
		reply.Epochs = append(reply.Epochs, wire.Epoch{Epoch: uint32(e), State: string(chain.State(e)), KeyID: p.KeyID})
	}
	return answer(stdout, reply)
}
