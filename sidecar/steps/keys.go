package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Init makes the first root key, the ledger's keys and the ledger's first act.
func Init(ctx context.Context, layout Layout, by string, stdout io.Writer) error {
	root, err := keys.CreateRoot(layout.RootKeys, layout.RootRules)
	if errors.Is(err, fs.ErrExist) {
		return resumeInit(ctx, layout, by, stdout)
	}
	if err != nil {
		return &RefusedError{Err: err}
	}
	return initLedger(ctx, layout, root, by, stdout)
}

// resumeInit goes on with what an init that was killed left: a root key, and a
// ledger that does not exist yet or has its first act only. Anything more is in
// use, and is not touched.
func resumeInit(ctx context.Context, layout Layout, by string, stdout io.Writer) error {
	root, err := keys.OpenRoot(layout.RootKeys, layout.RootRules)
	if err != nil {
		return &RefusedError{Err: err}
	}
	l, err := openLedger(layout, root, nil)
	if errors.Is(err, ledger.ErrNoLedger) {
		return initLedger(ctx, layout, root, by, stdout)
	}
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	state, err := l.View()
	if err != nil {
		return err
	}
	if state.Count() != 1 {
		return &RefusedError{Err: fmt.Errorf("keys and control are in use: the ledger has %d acts", state.Count())}
	}
	return keysReply(state.Anchor(), root.Chain(), stdout)
}

func initLedger(ctx context.Context, layout Layout, root *keys.Root, by string, stdout io.Writer) error {
	if err := root.WriteLedgerKeys(layout.LedgerKeys, layout.Rules); err != nil {
		return err
	}
	anchor, err := createLedger(ctx, layout, root, by)
	if err != nil {
		return err
	}
	return keysReply(anchor, root.Chain(), stdout)
}

func createLedger(ctx context.Context, layout Layout, root *keys.Root, by string) (ledger.Anchor, error) {
	signer, err := root.Signer(keys.DomainLedger, root.Current(), "")
	if err != nil {
		return ledger.Anchor{}, err
	}
	v, err := root.Verifier(keys.DomainLedger, 0, "")
	if err != nil {
		return ledger.Anchor{}, err
	}
	l, acted, err := ledger.Create(ctx, layout.Ledger, layout.Rules, ledger.Trust{ControlID: root.ControlID(), Verifier: v}, signer, by, time.Now())
	if err != nil {
		return ledger.Anchor{}, &RefusedError{Err: err}
	}
	return acted.Anchor, l.Close()
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
	if err := publish(layout, next.Chain()); err != nil {
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
