package steps

import (
	"context"
	"io"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// viewByLedgerKeys opens the ledger as the operator's verbs do, without the
// root key.
func viewByLedgerKeys(layout Layout) (*ledger.State, keys.Chain, error) {
	lk, err := keys.OpenLedgerKeys(layout.LedgerKeys, layout.Rules)
	if err != nil {
		return nil, keys.Chain{}, &RefusedError{Err: err, Hint: "proctor init"}
	}
	v, err := lk.Verifier()
	if err != nil {
		return nil, keys.Chain{}, err
	}
	l, err := ledgerWith(layout, lk.Chain().ControlID(), v, nil)
	if err != nil {
		return nil, keys.Chain{}, err
	}
	defer func() { _ = l.Close() }()
	state, err := l.View()
	return state, lk.Chain(), err
}

// Sealed answers with what the ledger knows of a session's seals.
func Sealed(_ context.Context, layout Layout, session string, stdout io.Writer) error {
	state, _, err := viewByLedgerKeys(layout)
	if err != nil {
		return err
	}
	reply := wire.SealedSession{Schema: "proctor/sealed/v1"}
	if s, ok := state.Session(session); ok && s.Seal != nil {
		reply.Number, reply.Digest, reply.Verdict = s.Seal.Number, s.Seal.SealDigest, s.Seal.Verdict
	}
	return answer(stdout, reply)
}
