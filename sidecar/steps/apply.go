package steps

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// CheckApply holds a seal against the ledger: it must be the session's newest,
// say PASS, and rely on no approval that was taken back or replaced since. The
// seal comes on standard input; the ledger's keys suffice.
func CheckApply(_ context.Context, layout Layout, stdin io.Reader, stdout io.Writer) error {
	env, err := io.ReadAll(io.LimitReader(stdin, seal.MaxSize+1))
	if err != nil {
		return err
	}
	state, chain, err := viewByLedgerKeys(layout)
	if err != nil {
		return err
	}
	v, err := chain.Verifier(keys.DomainSeal, 0)
	if err != nil {
		return &RefusedError{Err: err}
	}
	payload, err := v.Verify(env, seal.PayloadType)
	if err != nil {
		return &RefusedError{Err: err}
	}
	st, err := seal.Parse(payload)
	if err != nil {
		return &RefusedError{Err: err}
	}
	p := st.Predicate
	known, ok := state.Session(p.Session)
	audits := "proctor audit " + p.Session
	switch {
	case p.Verdict != seal.Pass:
		return &RefusedError{Err: fmt.Errorf("the seal says %s", p.Verdict), Hint: "proctor sessions show " + p.Session}
	case !ok || known.Seal == nil || known.Seal.SealDigest != hexSHA256(env):
		return &RefusedError{Err: errors.New("this is not the session's newest seal"), Hint: audits}
	}
	for _, a := range p.Approvals {
		var sum [32]byte
		if err := parseSHA256(a.SHA256, &sum); err != nil {
			return &RefusedError{Err: err}
		}
		r, ok := state.Decision(a.Path.Raw())
		if !ok || r.Seq != a.Act || !state.Approved(a.Path.Raw(), sum, time.Now()) {
			return &RefusedError{Err: fmt.Errorf("the approval of %q, on which the seal relies, does not hold any longer", a.Path.Raw()), Hint: audits}
		}
	}
	for _, a := range p.PackageApprovals {
		if !packageHolds(state, a, time.Now()) {
			return &RefusedError{Err: fmt.Errorf("the approval of package %q, on which the seal relies, does not hold any longer", a.Name+"@"+a.Version), Hint: audits}
		}
	}
	anchor, err := anchorOf(state.Anchor(), chain)
	if err != nil {
		return err
	}
	return answer(stdout, wire.ApplyCheck{Schema: "proctor/apply-check/v1", Anchor: anchor})
}

// ApplyConfig is one apply, on the host, as the product's owner and the
// session's identity.
type ApplyConfig struct {
	Product, Stage             *os.File
	BaselineStream, Manifest   *os.File
	BaselineSHA256, SealSHA256 string // hex
}

// Apply brings the sealed bytes home and answers with what it did. An error is
// in the answer; the process's own error means that there is none.
func Apply(ctx context.Context, cfg ApplyConfig, stdout io.Writer) error {
	reply := wire.ApplyReply{Schema: "proctor/apply/v1", Kept: []wire.Path{}, Conflicts: []wire.Conflict{}, Missing: []wire.Path{}}
	result, err := apply(ctx, cfg)
	reply.Written, reply.Removed = result.Written, result.Removed
	for _, k := range result.Kept {
		reply.Kept = append(reply.Kept, wire.NewPath(k))
	}
	var conflict *product.ConflictError
	var incomplete *product.IncompleteError
	switch {
	case errors.As(err, &conflict):
		reply.Total = conflict.Total
		for _, c := range conflict.Conflicts {
			reply.Conflicts = append(reply.Conflicts, wire.Conflict{Path: wire.NewPath(c.Path), Reason: c.Reason})
		}
	case errors.As(err, &incomplete):
		reply.Total = incomplete.Total
		for _, m := range incomplete.Missing {
			reply.Missing = append(reply.Missing, wire.NewPath(m))
		}
	}
	if err != nil {
		reply.Error = err.Error()
	}
	return answer(stdout, reply)
}

func apply(ctx context.Context, cfg ApplyConfig) (product.ApplyResult, error) {
	baseline, sum, indexes, err := baselineManifest(cfg)
	if err != nil {
		return product.ApplyResult{}, err
	}
	defer func() { _ = baseline.Close() }()
	in := product.ApplyInput{
		Product: cfg.Product, Stage: cfg.Stage,
		Baseline: baseline, BaselineSHA256: sum, Sealed: bufio.NewReaderSize(cfg.Manifest, 256<<10),
		IndexDigest: audit.IndexDigest, BaselineIndex: indexes,
	}
	if err := parseSHA256(cfg.SealSHA256, &in.SealedSHA256); err != nil {
		return product.ApplyResult{}, err
	}
	plan, err := product.PlanApply(ctx, in)
	if err != nil {
		return product.ApplyResult{}, err
	}
	return plan.Apply(ctx, nil)
}

// baselineManifest reads the stream that the session was opened with, by its
// digest, and makes a manifest of it in a file without a name.
func baselineManifest(cfg ApplyConfig) (f *os.File, sum [32]byte, indexes map[string][32]byte, err error) {
	fail := func(err error) (*os.File, [32]byte, map[string][32]byte, error) {
		return nil, sum, nil, fmt.Errorf("baseline: %w", err)
	}
	if f, err = anonymous(); err != nil {
		return fail(err)
	}
	hash := sha256.New()
	dec := product.NewDecoder(io.TeeReader(bufio.NewReaderSize(cfg.BaselineStream, 256<<10), hash), product.StreamLimits{})
	w := product.NewManifestWriter(f)
	indexes = map[string][32]byte{}
	for {
		item, err := dec.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fail(err)
		}
		switch {
		case item.Entry != nil:
			if err := w.Entry(*item.Entry); err != nil {
				return fail(err)
			}
		case item.Fact != nil && item.Fact.Kind == product.FactGitIndex:
			indexes[item.Fact.Path] = item.Fact.SHA256
		}
	}
	if hex.EncodeToString(hash.Sum(nil)) != cfg.BaselineSHA256 {
		return fail(errors.New("not the one that was sealed"))
	}
	if sum, err = w.Close(); err != nil {
		return fail(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fail(err)
	}
	return f, sum, indexes, nil
}

// anonymous is a file in memory: this process may write in no directory of the
// launcher's.
func anonymous() (*os.File, error) {
	fd, err := unix.MemfdCreate("baseline", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "baseline"), nil
}

func parseSHA256(s string, sum *[32]byte) error {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(sum) {
		return fmt.Errorf("%q is not a SHA-256", s)
	}
	copy(sum[:], b)
	return nil
}
