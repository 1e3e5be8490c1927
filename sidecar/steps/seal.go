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
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/record"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Seal judges a session and signs the verdict. Standard input is one line with
// what only the host side knows, the reader's stream, and one line that says how
// the reader ended.
func Seal(ctx context.Context, layout Layout, stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReaderSize(stdin, 256<<10)
	var req wire.SealRequest
	if err := request(in, &req); err != nil {
		return &RefusedError{Err: err}
	}
	if req.Schema != "proctor/seal/v1" {
		return &RefusedError{Err: fmt.Errorf("schema %q", req.Schema)}
	}
	s, err := newSealing(layout, req)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.judge(in); err != nil {
		return err
	}
	if err := s.writeRows(); err != nil {
		return err
	}
	reply, err := s.sign(ctx)
	if err != nil {
		return err
	}
	if err := answer(stdout, reply); err != nil {
		return err
	}
	return s.sendManifest(stdout)
}

// sealing is one run of the seal step.
type sealing struct {
	layout  Layout
	req     wire.SealRequest
	root    *keys.Root
	ledger  *ledger.Ledger
	state   *ledger.State
	part    *safedir.Dir
	session Session
	digest  string // of the session's envelope
	policy  *policy.Policy

	problems         []string // of this audit; another one may do without
	lasting          []string // of the session; no later audit can mend them
	result           *audit.Result
	approvals        []seal.Approval
	manifest         *os.File
	manSum           [32]byte
	leftOut          []wire.Path
	number           int
	previous         string          // digest of the session's seal before this one
	before           *seal.Statement // that seal
	wasTree          string          // that the session's seals are about
	record           wire.RecordHead
	decisions        []seal.Decision
	leftOutDecisions int
	recorded         *record.Head // nil where the record could not be verified
}

func newSealing(layout Layout, req wire.SealRequest) (*sealing, error) {
	s := &sealing{layout: layout, req: req}
	if err := s.openControl(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *sealing) openControl() error {
	var err error
	if s.root, err = openRoot(s.layout, s.req.Anchor); err != nil {
		return err
	}
	if s.ledger, err = openLedger(s.layout, s.root, s.req.Anchor); err != nil {
		return err
	}
	if s.state, err = s.ledger.View(); err != nil {
		return err
	}
	if s.part, err = safedir.Open(s.layout.Session, s.layout.Rules); err != nil {
		return err
	}
	if err := s.readSession(); err != nil {
		return err
	}
	if err := s.readPolicy(); err != nil {
		return err
	}
	s.readRecord()
	s.manifest, err = os.CreateTemp(s.layout.Session, ".manifest-*")
	return err
}

func (s *sealing) close() {
	if s.manifest != nil {
		_ = s.manifest.Close()
		_ = os.Remove(s.manifest.Name())
	}
	if s.part != nil {
		_ = s.part.Close()
	}
	if s.ledger != nil {
		_ = s.ledger.Close()
	}
}

// readSession believes the session's file only as far as the root key signed it
// and the ledger knows it.
func (s *sealing) readSession() error {
	known, ok := s.state.Session(s.req.Session)
	if !ok {
		return &RefusedError{Err: fmt.Errorf("the ledger knows no session %s", s.req.Session)}
	}
	newest := known.Opens[len(known.Opens)-1]
	if s.root.Chain().State(newest.Epoch) == keys.Compromised {
		return &RefusedError{Err: fmt.Errorf("session %s: %w since it was opened; nothing is sealed", s.req.Session, keys.ErrCompromised)}
	}
	v, err := s.root.Verifier(keys.DomainSession, 0, s.req.Session)
	if err != nil {
		return err
	}
	if s.session, s.digest, err = readSession(s.part, v); err != nil {
		return &RefusedError{Err: err}
	}
	if s.session.Session != s.req.Session || s.session.ControlID != s.root.ControlID() {
		return &RefusedError{Err: fmt.Errorf("session part belongs to session %s", s.session.Session)}
	}
	if newest.SessionDigest != s.digest {
		return &RefusedError{Err: errors.New("the session's file is not the one that the ledger opened")}
	}
	s.number = 1
	if known.Seal == nil {
		if s.req.Again {
			return &RefusedError{Err: fmt.Errorf("session %s has no seal to start from", s.req.Session)}
		}
		return nil
	}
	s.number, s.previous = known.Seal.Number+1, known.Seal.SealDigest
	if !s.req.Again {
		return &RefusedError{Err: fmt.Errorf("session %s is sealed already", s.req.Session), Hint: "proctor audit " + s.req.Session}
	}
	return s.resume()
}

func (s *sealing) readPolicy() error {
	var err error
	s.policy, err = sessionPolicy(s.part, s.session)
	return err
}

// readRecord holds the record against its keys and against the head that serve
// told the launcher. Whatever is wrong with it is a problem, not an end: the
// record is believed for what serve granted, never for the verdict. It lasts: a
// later audit starts from the head that this one ends with.
func (s *sealing) readRecord() {
	if s.before != nil && s.before.Predicate.Record.Count == 0 {
		return // the seal before says why it could not be verified
	}
	known := s.req.RecordHead
	check := record.Check{Session: s.session.Session, Key: s.recordKey}
	if known != nil {
		check.Known = &record.Head{Count: known.Count, MAC: known.MAC}
	} else {
		s.lasting = append(s.lasting, "the record was not closed")
	}
	rows, head, err := record.VerifyDir(s.layout.Session, s.layout.Rules, check)
	if err != nil {
		s.lasting = append(s.lasting, "the record could not be verified: "+err.Error())
		return
	}
	s.record, s.recorded = wireHead(head), &head
	s.decisions, s.leftOutDecisions = decisions(rows)
}

// processEnd is how a process ended, small enough for the space that an agent's
// questions cannot use up. The seal has the rest.
type processEnd struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	Exit    int    `json:"exit"`
	Expect  int    `json:"expect"`
}

func endOf(p wire.Process) processEnd { return processEnd{p.Name, p.Outcome, p.Exit, p.Expect} }

// writeRows records what was judged, before it is sealed.
func (s *sealing) writeRows() error {
	if s.recorded == nil {
		return nil
	}
	key, err := s.recordKey(stepSeal)
	if err != nil {
		return err
	}
	rec, err := record.OpenAppend(s.layout.Session, s.layout.Rules, record.Config{Session: s.session.Session, Step: stepSeal, Key: key}, s.recorded)
	if err != nil {
		return err
	}
	if s.req.Agent != nil {
		_, err = rec.Phase("agent", endOf(*s.req.Agent))
	}
	for _, c := range s.req.Checks {
		if err == nil {
			_, err = rec.Phase("check", endOf(c))
		}
	}
	if err == nil {
		_, err = rec.Phase("audited", struct {
			Number   int    `json:"n"`
			Previous string `json:"previous"`
			Tree     string `json:"tree"`
			Entries  int64  `json:"entries"`
			Findings int    `json:"findings"`
		}{s.number, s.previous, s.result.Final.Tree, s.result.Final.Entries, len(s.result.Findings)})
	}
	s.record = wireHead(rec.Head())
	return errors.Join(err, rec.Close())
}

func (s *sealing) recordKey(step string) (keys.Secret, error) {
	return s.root.RecordKey(s.session.Epoch, s.session.Session, step)
}

// judge reads the reader's stream against the baseline.
func (s *sealing) judge(in *bufio.Reader) error {
	base, err := s.baseline()
	if err != nil {
		return err
	}
	defer func() { _ = base.Close() }()
	single := product.NewSingle(in)
	manifest := product.NewManifestWriter(s.manifest)
	s.result, err = audit.Judge(audit.Input{
		Baseline: product.NewDecoder(bufio.NewReaderSize(base, 256<<10), product.StreamLimits{}),
		Final:    product.NewDecoder(single, product.StreamLimits{}),
		Tee:      manifest, Protected: s.protected, Approved: s.approved, Packages: s.judgedPackages(),
		Covered: func(path string, sum [32]byte) bool { return s.state.Approved(s.hostPath(path), sum, time.Now()) },
		Review:  action(s.policy.Classes.Review), Tree: action(s.policy.Classes.Tree),
	})
	if err != nil {
		s.problems = append(s.problems, "the audit did not finish: "+err.Error())
		s.result = &audit.Result{}
		return s.drop()
	}
	if s.manSum, err = manifest.Close(); err != nil {
		return err
	}
	if s.before != nil {
		if s.wasTree != "" && s.wasTree != s.result.Final.Tree {
			s.lasting = append(s.lasting, "the product is not the one that was sealed before")
		}
	}
	outcome, err := readOutcome(in)
	switch {
	case err != nil:
		return err
	case outcome.Exit != 0 || outcome.Error != "":
		s.problems = append(s.problems, "the reader did not end well: "+outcome.Error)
	}
	s.req.Containers = append(s.req.Containers, outcome.Containers...)
	return nil
}

// readOutcome takes the launcher's last word. It is the last of the input, too: a
// reader that wrote such a line itself is followed by the launcher's own.
func readOutcome(in *bufio.Reader) (wire.ReadOutcome, error) {
	var outcome wire.ReadOutcome
	if err := request(in, &outcome); err != nil || outcome.Schema != "proctor/read/v1" {
		return outcome, &RefusedError{Err: errors.New("the launcher did not say how the reader ended; nothing is sealed")}
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return outcome, &RefusedError{Err: errors.New("more than how the reader ended follows its stream; nothing is sealed")}
	}
	return outcome, nil
}

// drop empties the manifest of a product that was not read to its end.
func (s *sealing) drop() error {
	_, err := s.manifest.Seek(0, io.SeekStart)
	s.manSum = sha256.Sum256(nil)
	return errors.Join(err, s.manifest.Truncate(0))
}

// baseline opens the stream that open kept, after its digest was verified.
func (s *sealing) baseline() (*os.File, error) {
	f, err := s.part.OpenFile(baselineFile, unix.O_RDONLY)
	if err != nil {
		return nil, &RefusedError{Err: fmt.Errorf("baseline: %w", err)}
	}
	sum := sha256.New()
	if err := s.readLeftOut(io.TeeReader(bufio.NewReaderSize(f, 256<<10), sum)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if hex.EncodeToString(sum.Sum(nil)) != s.session.Baseline.StreamSHA256 {
		return nil, errors.Join(&RefusedError{Err: errors.New("the baseline is not the one that was opened")}, f.Close())
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// readLeftOut notes what was never in the session, so that a verifier does not
// miss it in the product.
func (s *sealing) readLeftOut(r io.Reader) error {
	dec := product.NewDecoder(r, product.StreamLimits{})
	for {
		item, err := dec.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("baseline: %w", err)
		}
		if item.Fact != nil && item.Fact.Kind == product.FactLeftOut {
			s.leftOut = append(s.leftOut, wire.NewPath(item.Fact.Path))
		}
	}
}

func (s *sealing) protected(path string) bool { return policy.AnyMatch(s.policy.Protected, path) }

// hostPath is the operator's path of one in the product.
func (s *sealing) hostPath(path string) string {
	return filepath.Join(s.session.Request.Product.Raw(), path)
}

// approved asks the ledger about one path's content, and remembers each yes.
func (s *sealing) approved(path string, sum [32]byte) bool {
	full := s.hostPath(path)
	if !s.state.Approved(full, sum, time.Now()) {
		return false
	}
	r, _ := s.state.Decision(full)
	s.approvals = append(s.approvals, seal.Approval{Path: wire.NewPath(full), SHA256: hex.EncodeToString(sum[:]), Act: r.Seq})
	return true
}

func action(h policy.Handling) audit.Action {
	if h == policy.HandleList {
		return audit.List
	}
	return audit.Fail
}
