package seal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// The types of a seal's envelope, statement and predicate.
const (
	PayloadType   = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://github.com/proctor-project/proctor/seal/v1"
)

// MaxSize is the largest envelope, in bytes.
const MaxSize = keys.MaxEnvelope

// Verdict is what a seal says.
type Verdict string

// The verdicts.
const (
	Pass          Verdict = "PASS"
	Fail          Verdict = "FAIL"
	Indeterminate Verdict = "INDETERMINATE"
)

// Statement is an in-toto Statement v1.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is one digest that the statement is about. The names are tree,
// worktree and git-exec; a seal over a product that could not be read in full
// has the one subject session, the digest of the session's envelope.
type Subject struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
}

// Digest is a SHA-256, hex.
type Digest struct {
	SHA256 string `json:"sha256"`
}

// Predicate is everything that the verdict rests on.
type Predicate struct {
	Verdict Verdict  `json:"verdict"`
	Reasons []string `json:"reasons"` // empty for PASS
	Number  int      `json:"number"`  // of the session's seals, from 1
	// Previous is the digest of the session's seal before this one.
	Previous string `json:"previous,omitempty"`

	Session       string     `json:"session"`
	SessionSHA256 string     `json:"session_sha256"` // of the session's envelope
	ControlID     string     `json:"control_id"`
	OpenedIn      keys.Epoch `json:"opened_in_epoch"`
	SealedIn      keys.Epoch `json:"sealed_in_epoch"`
	Product       wire.Path  `json:"product"`
	User          string     `json:"user"`
	Observer      string     `json:"observer"`
	Opened        time.Time  `json:"opened"`
	Finished      time.Time  `json:"finished"` // the launcher's clock, when the agent and the checks were done
	Sealed        time.Time  `json:"sealed"`

	PolicySHA256 string `json:"policy_sha256"`
	// ProductPolicySHA256 is of the policy that the product brought along, where it
	// was approved and narrowed the operator's.
	ProductPolicySHA256 string           `json:"product_policy_sha256,omitempty"`
	Command             []string         `json:"command"`
	Images              []wire.Image     `json:"images"`
	Files               []wire.File      `json:"files"`
	Engine              wire.Engine      `json:"engine"`
	Containers          []wire.Container `json:"containers"`
	Waivers             []string         `json:"waivers"`

	Baseline     Trees    `json:"baseline"`
	BeforeChecks string   `json:"tree_before_checks,omitempty"`
	Manifest     Manifest `json:"manifest"`
	// GitIndexes and LeftOut are for comparing a product with the sealed tree:
	// what git rewrites on its own, and what never was in the session.
	GitIndexes []GitIndex    `json:"git_indexes,omitempty"`
	LeftOut    []wire.Path   `json:"left_out,omitempty"`
	Agent      *wire.Process `json:"agent,omitempty"`
	Checks     []Check       `json:"checks"`

	Findings  []audit.Finding `json:"findings"`
	Reviews   []audit.Review  `json:"reviews"`
	Approvals []Approval      `json:"approvals"` // that the verdict relies on
	// PackageApprovals are those of packages.
	PackageApprovals []PackageApproval `json:"package_approvals,omitempty"`
	// Decisions are what the doors allowed and refused, as serve recorded it: its
	// word, and no part of the verdict. DecisionsLeftOut counts those that only
	// the record has.
	Decisions        []Decision `json:"decisions"`
	DecisionsLeftOut int        `json:"decisions_left_out"`
	// Problems are what could not be established about the session, for good;
	// AuditProblems what this audit could not establish: another may.
	Problems      []string `json:"problems"`
	AuditProblems []string `json:"audit_problems"`

	Record wire.RecordHead `json:"record"`
	Ledger LedgerHead      `json:"ledger"`
}

// Trees are the digests of one state of the product.
type Trees struct {
	Tree         string `json:"tree"`
	Worktree     string `json:"worktree"`
	GitExec      string `json:"git_exec"`
	StreamSHA256 string `json:"stream_sha256"`
	Entries      int64  `json:"entries"`
}

// Manifest binds the manifest that goes with the seal.
type Manifest struct {
	SHA256  string `json:"sha256"`
	Entries int64  `json:"entries"`
	Bytes   int64  `json:"bytes"`
}

// Check is one check's result.
type Check struct {
	wire.Process
	Form   string `json:"form"`
	Passed bool   `json:"passed"`
}

// Approval is one approval in the ledger that let a finding pass.
type Approval struct {
	Path   wire.Path `json:"path"`
	SHA256 string    `json:"sha256"`
	Act    uint64    `json:"act"` // its number in the ledger
}

// Decision is what a door decided about one thing, and how often.
type Decision struct {
	Door    string `json:"door"`
	What    string `json:"what"`    // escaped
	Outcome string `json:"outcome"` // allowed, refused or asked
	Reason  string `json:"reason"`
	Count   int    `json:"count"`
}

// PackageApproval is one approval of a package that let a lock file's entry, or
// what lies in a node_modules, pass.
type PackageApproval struct {
	Registry  string `json:"registry"`
	Name      string `json:"name"`
	Version   string `json:"version"`
	Integrity string `json:"integrity"`
	Act       uint64 `json:"act"` // its number in the ledger
}

// LedgerHead is the ledger that the verdict was decided by.
type LedgerHead struct {
	Count uint64 `json:"count"`
	Hash  string `json:"hash"`
}

// Build makes the payload to be signed. final is nil for a product that could
// not be read in full.
func Build(p Predicate, final *Trees) ([]byte, error) {
	s := Statement{Type: statementType, PredicateType: predicateType, Predicate: p}
	if final == nil {
		s.Subject = []Subject{{"session", Digest{p.SessionSHA256}}}
	} else {
		s.Subject = []Subject{{"tree", Digest{final.Tree}}, {"worktree", Digest{final.Worktree}}, {"git-exec", Digest{final.GitExec}}}
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("build seal: %w", err)
	}
	b, err := strictjson.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("build seal: %w", err)
	}
	return b, nil
}

// Parse reads a payload strictly.
func Parse(payload []byte) (Statement, error) {
	var s Statement
	if err := strictjson.Unmarshal(payload, &s, strictjson.Limits{Size: MaxSize}); err != nil {
		return s, fmt.Errorf("read seal: %w", err)
	}
	if err := s.check(); err != nil {
		return s, fmt.Errorf("read seal: %w", err)
	}
	return s, nil
}

// Subject returns the digest of the named subject, or "".
func (s Statement) SubjectDigest(name string) string {
	for _, sub := range s.Subject {
		if sub.Name == name {
			return sub.Digest.SHA256
		}
	}
	return ""
}

// check refuses a statement that contradicts itself.
func (s Statement) check() error {
	var errs []error
	if s.Type != statementType || s.PredicateType != predicateType {
		errs = append(errs, fmt.Errorf("type %q, predicate %q", s.Type, s.PredicateType))
	}
	names := make([]string, 0, len(s.Subject))
	for _, sub := range s.Subject {
		names = append(names, sub.Name)
		if !isSHA256(sub.Digest.SHA256) {
			errs = append(errs, fmt.Errorf("subject %q is not a digest", sub.Name))
		}
	}
	p := s.Predicate
	switch strings.Join(names, " ") {
	case "tree worktree git-exec":
	case "session":
		if p.Verdict != Indeterminate {
			errs = append(errs, errors.New("a verdict over no product"))
		}
	default:
		errs = append(errs, fmt.Errorf("subjects %q", names))
	}
	switch p.Verdict {
	case Pass:
		if len(p.Reasons)+len(p.Problems)+len(p.AuditProblems) > 0 {
			errs = append(errs, errors.New("PASS with reasons against it"))
		}
		errs = append(errs, p.checkPass())
	case Fail, Indeterminate:
		if len(p.Reasons) == 0 {
			errs = append(errs, fmt.Errorf("%s without a reason", p.Verdict))
		}
	default:
		errs = append(errs, fmt.Errorf("verdict %q", p.Verdict))
	}
	if p.Number < 1 || (p.Number == 1) != (p.Previous == "") {
		errs = append(errs, fmt.Errorf("seal %d, previous %q", p.Number, p.Previous))
	}
	return errors.Join(errs...)
}

// checkPass refuses a PASS beside something that is not one.
func (p Predicate) checkPass() error {
	for _, f := range p.Findings {
		if !f.Approved {
			return fmt.Errorf("PASS with the finding %s, which is not approved", f.Kind)
		}
	}
	for _, c := range p.Checks {
		if !c.Passed || !Passed(c.Process, c.Form).Passed {
			return fmt.Errorf("PASS with the check %s, which did not pass", c.Name)
		}
	}
	return nil
}

func isSHA256(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && strings.ToLower(s) == s
}

// Payload is an envelope's payload, unverified: for a seal that its caller was
// just given by the step that signed it. Verify is for every other.
func Payload(envelope []byte) ([]byte, error) {
	t, payload, err := keys.Payload(envelope)
	if err != nil {
		return nil, fmt.Errorf("read seal: %w", err)
	}
	if t != PayloadType {
		return nil, fmt.Errorf("read seal: payload type %q", t)
	}
	return payload, nil
}
