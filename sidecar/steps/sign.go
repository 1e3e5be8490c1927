package steps

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// sign decides, signs, and writes the ledger's act. Only then does a seal exist.
func (s *sealing) sign(ctx context.Context) (wire.SealReply, error) {
	var reply wire.SealReply
	payload, p, err := s.payload()
	if err != nil {
		return reply, err
	}
	epoch := s.root.Current()
	signer, err := s.root.Signer(keys.DomainSeal, epoch, "")
	if err != nil {
		return reply, err
	}
	env, err := signer.Sign(ctx, seal.PayloadType, payload)
	if err != nil {
		return reply, err
	}
	digest := hexSHA256(env)
	// Before the act: what the ledger names is there, whenever this ends.
	if err := s.part.ReplaceFile(sealFile(s.number), env); err != nil {
		return reply, err
	}
	acts, err := s.root.Signer(keys.DomainLedger, epoch, "")
	if err != nil {
		return reply, err
	}
	acted, err := s.ledger.Act(ctx, acts, ledger.Entry{
		Time: p.Sealed, By: byline(s.session.Request.User), Kind: ledger.KindSeal,
		Seal: &ledger.SealAct{Session: s.session.Session, SealDigest: digest, Verdict: string(p.Verdict), Number: s.number},
	})
	if err != nil {
		return reply, err
	}
	if err := s.deleteSubkeys(); err != nil {
		return reply, err
	}
	anchor, err := anchorOf(acted.Anchor, s.root.Chain())
	if err != nil {
		return reply, err
	}
	return wire.SealReply{
		Schema: "proctor/seal-reply/v1", Verdict: string(p.Verdict), Reasons: p.Reasons, Seal: env, Digest: digest,
		Number: s.number, Manifest: p.Manifest.Bytes, Entries: p.Manifest.Entries, Tree: s.result.Final.Tree, Anchor: anchor,
	}, nil
}

// deleteSubkeys ends what serve could write; the record's key can be derived
// again from the root key alone.
func (s *sealing) deleteSubkeys() error {
	err := os.Remove(filepath.Join(s.layout.Session, serveKeyFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (s *sealing) payload() ([]byte, seal.Predicate, error) {
	size, err := s.manifest.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, seal.Predicate{}, err
	}
	req, final := s.session.Request, s.result.Final
	anchor := s.state.Anchor()
	p := seal.Predicate{
		Number: s.number, Previous: s.previous,
		Session: s.session.Session, SessionSHA256: s.digest, ControlID: s.session.ControlID,
		OpenedIn: s.session.Epoch, SealedIn: s.root.Current(),
		Product: req.Product, User: req.User, Observer: req.Observer,
		Opened: s.session.Opened, Finished: s.req.Finished.UTC(), Sealed: time.Now().UTC(),
		PolicySHA256: s.session.PolicySHA256, ProductPolicySHA256: s.session.ProductPolicySHA256, Command: req.Command, Images: req.Images, Files: req.Files,
		Engine: req.Engine, Containers: s.req.Containers, Waivers: req.Waivers,
		Baseline:   trees(s.session.Baseline.Summary, s.session.Baseline.StreamSHA256),
		Manifest:   seal.Manifest{SHA256: hex.EncodeToString(s.manSum[:]), Entries: final.Entries, Bytes: size},
		GitIndexes: gitIndexes(s.result.Indexes), LeftOut: s.leftOut,
		Agent: s.req.Agent, Checks: s.judgeChecks(), BeforeChecks: s.req.BeforeChecks,
		Findings: s.result.Findings, Reviews: s.result.Reviews, Approvals: s.approvals, PackageApprovals: s.packageApprovals(), Decisions: s.decisions, DecisionsLeftOut: s.leftOutDecisions, Problems: s.sessionProblems(), AuditProblems: append([]string{}, s.problems...),
		Record: s.record, Ledger: seal.LedgerHead{Count: anchor.Count, Hash: anchor.Hash},
	}
	p.Verdict, p.Reasons = seal.Decide(seal.Known{
		Findings: s.result.Unapproved(), Checks: p.Checks, Problems: append(append([]string{}, p.Problems...), p.AuditProblems...),
		BeforeChecks: p.BeforeChecks, Final: final.Tree, ReadInFull: final.Complete,
		Observer: req.Observer, ChainAllowed: s.policy.Observer.Chain == policy.Allow,
	})
	var subjects *seal.Trees
	if final.Complete {
		t := trees(final, "")
		subjects = &t
	}
	payload, err := seal.Build(orEmpty(p), subjects)
	return payload, p, err
}

func trees(s product.Summary, stream string) seal.Trees {
	return seal.Trees{Tree: s.Tree, Worktree: s.Worktree, GitExec: s.GitExec, StreamSHA256: stream, Entries: s.Entries}
}

// judgeChecks holds every check of the policy against what the launcher says of
// it: a check that is missing, or was given another command or another expected
// status, was not run.
func (s *sealing) judgeChecks() []seal.Check {
	said := map[string]wire.Process{}
	for _, p := range s.req.Checks {
		said[p.Name] = p
	}
	checks := make([]seal.Check, 0, len(s.policy.Checks))
	for _, c := range s.policy.Checks {
		p, ok := said[c.Name]
		if !ok || !sameArgv(p.Argv, c.Argv) || p.Expect != c.Expect {
			p = wire.Process{Name: c.Name, Argv: c.Argv, Expect: c.Expect, Outcome: "lost", Reported: "engine", Detail: "the check was not run as the policy says"}
		}
		checks = append(checks, seal.Passed(p, string(c.Form)))
	}
	return checks
}

func sameArgv(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// sessionProblems are the launcher's and the record's, which no later audit can mend.
func (s *sealing) sessionProblems() []string {
	all := append(append([]string{}, s.req.Problems...), s.lasting...)
	if len(s.req.Quiescence) > 0 {
		all = append(all, "the product was still in use when the agent was gone: "+strings.Join(s.req.Quiescence, "; "))
	}
	if s.req.Agent == nil {
		all = append(all, "how the agent ended is not known")
	}
	return all
}

// maxIndexes bounds what a tree full of repositories puts into its seal. An
// index beyond it is compared by its bytes.
const maxIndexes = 1000

func gitIndexes(all map[string][32]byte) []seal.GitIndex {
	paths := slices.Sorted(maps.Keys(all))
	if len(paths) > maxIndexes {
		paths = paths[:maxIndexes]
	}
	list := make([]seal.GitIndex, 0, len(paths))
	for _, p := range paths {
		sum := all[p]
		list = append(list, seal.GitIndex{Path: wire.NewPath(p), SHA256: hex.EncodeToString(sum[:])})
	}
	return list
}

// orEmpty makes empty lists of missing ones, for the document's sake.
func orEmpty(p seal.Predicate) seal.Predicate {
	if p.Findings == nil {
		p.Findings = []audit.Finding{}
	}
	if p.Reviews == nil {
		p.Reviews = []audit.Review{}
	}
	if p.Decisions == nil {
		p.Decisions = []seal.Decision{}
	}
	if p.Approvals == nil {
		p.Approvals = []seal.Approval{}
	}
	return p
}

// sendManifest writes the manifest behind the answer's line.
func (s *sealing) sendManifest(w io.Writer) error {
	if _, err := s.manifest.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(w, s.manifest)
	return err
}
