package steps

import (
	"context"
	"io"

	"github.com/proctor-project/proctor/sidecar/wire"
)

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
