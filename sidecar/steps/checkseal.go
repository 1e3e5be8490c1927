package steps

import (
	"context"
	"io"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// CheckSeal answers with what only the root key and the ledger can say of a
// seal, which comes on standard input: its HMAC, and whether it is the newest of
// its session.
func CheckSeal(_ context.Context, layout Layout, stdin io.Reader, stdout io.Writer) error {
	env, err := io.ReadAll(io.LimitReader(stdin, seal.MaxSize+1))
	if err != nil {
		return err
	}
	root, err := openRoot(layout, nil)
	if err != nil {
		return err
	}
	l, err := openLedger(layout, root, nil)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	state, err := l.View()
	if err != nil {
		return &RefusedError{Err: err}
	}
	v, err := root.Verifier(keys.DomainSeal, 0, "")
	if err != nil {
		return err
	}
	report, err := seal.Verify(seal.Options{Seal: env, Control: v, Ledger: state})
	if err != nil {
		return err
	}
	reply := wire.SealCheck{Schema: "proctor/seal-check/v1", Rows: []wire.SealRow{}}
	for _, row := range report.Rows {
		switch row.Name {
		case seal.RowSeal, seal.RowHMAC, seal.RowLedger:
			reply.Rows = append(reply.Rows, wire.SealRow{Status: string(row.Status), Name: row.Name, Detail: row.Detail})
		}
	}
	return answer(stdout, reply)
}
