package ledger

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/proctor-project/proctor/keys"
)

// Kind is what an act does.
type Kind string

// The kinds of act.
const (
	KindInit    Kind = "init"
	KindRotate  Kind = "rotate"
	KindOpen    Kind = "open"
	KindSeal    Kind = "seal"
	KindApprove Kind = "approve"
	KindDeny    Kind = "deny"
	KindRevoke  Kind = "revoke"
	KindAnswer  Kind = "answer"
)

// Entry is one act. The field that Kind names is set, and no other; Seq and
// Prev are the ledger's to fill.
type Entry struct {
	Seq    uint64     `json:"seq"`  // from 1
	Prev   string     `json:"prev"` // chain hash before this act, hex
	Time   time.Time  `json:"time"` // UTC
	By     string     `json:"by"`   // host user as the launcher knows it; at most 256 bytes
	Kind   Kind       `json:"kind"`
	Init   *InitAct   `json:"init,omitempty"`
	Rotate *RotateAct `json:"rotate,omitempty"`
	Open   *OpenAct   `json:"open,omitempty"`
	Seal   *SealAct   `json:"seal,omitempty"`
	Answer *AnswerAct `json:"answer,omitempty"`

	// Of these, approve, deny and revoke have exactly one: what they are about.
	Path    *PathAct    `json:"path,omitempty"`
	Package *PackageAct `json:"package,omitempty"`
	Host    *HostAct    `json:"host,omitempty"`
}

// InitAct is the first act of every ledger.
type InitAct struct {
	ControlID string `json:"control_id"`
}

// RotateAct says that a new epoch signs from here on.
type RotateAct struct {
	Epoch  keys.Epoch  `json:"epoch"`
	Reason keys.Reason `json:"reason"`
}

// OpenAct is the start of a session, or of an audit of it.
type OpenAct struct {
	Session       string     `json:"session"`
	SessionDigest string     `json:"session_digest"` // SHA-256 of the session's envelope
	Epoch         keys.Epoch `json:"epoch"`
}

// SealAct is one seal of a session; the newest is the one that counts.
type SealAct struct {
	Session    string `json:"session"`
	SealDigest string `json:"seal_digest"` // SHA-256 of the seal's envelope
	Verdict    string `json:"verdict"`     // PASS, FAIL or INDETERMINATE
	Number     int    `json:"n"`           // from 1
}

const (
	maxBy   = 256
	maxName = 256
)

// validate refuses an act that is not whole. All problems are reported.
func (e Entry) validate() error {
	var problems []error
	for _, check := range []func(Entry) error{checkMeta, checkOnlyOne, checkInit, checkRotate, checkOpen, checkSeal, checkAnswer, checkPath, checkPackage, checkHost} {
		problems = append(problems, check(e))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("act %d (%q): %w", e.Seq, e.Kind, err)
	}
	return nil
}

func checkMeta(e Entry) error {
	if e.Time.IsZero() || e.Time.Location() != time.UTC {
		return errors.New("time is missing or not UTC")
	}
	if e.By == "" || len(e.By) > maxBy {
		return fmt.Errorf("by: %d bytes", len(e.By))
	}
	return nil
}

func checkOnlyOne(e Entry) error {
	set := map[string]bool{"init": e.Init != nil, "rotate": e.Rotate != nil, "open": e.Open != nil, "seal": e.Seal != nil, "answer": e.Answer != nil}
	subjects := map[string]bool{"path": e.Path != nil, "package": e.Package != nil, "host": e.Host != nil}
	want := map[Kind]string{KindInit: "init", KindRotate: "rotate", KindOpen: "open", KindSeal: "seal", KindAnswer: "answer", KindApprove: "", KindDeny: "", KindRevoke: ""}
	name, known := want[e.Kind]
	if !known {
		return errors.New("unknown kind")
	}
	for field, is := range set {
		if is != (field == name) {
			return fmt.Errorf("field %q does not belong to the kind, or is missing", field)
		}
	}
	about := 0
	for _, is := range subjects {
		if is {
			about++
		}
	}
	if name == "" && about != 1 || name != "" && about != 0 {
		return fmt.Errorf("is about %d paths, packages and hosts", about)
	}
	return nil
}

func checkInit(e Entry) error {
	if (e.Kind == KindInit) != (e.Seq == 1) {
		return errors.New("init is the first act and no other")
	}
	return nil
}

func checkRotate(e Entry) error {
	if r := e.Rotate; r != nil && (r.Epoch < 2 || (r.Reason != keys.Routine && r.Reason != keys.Leaked)) {
		return fmt.Errorf("rotate: epoch %d, reason %q", r.Epoch, r.Reason)
	}
	return nil
}

func checkOpen(e Entry) error {
	if o := e.Open; o != nil && (!isName(o.Session) || !isDigest(o.SessionDigest) || o.Epoch == 0) {
		return errors.New("open: session, digest or epoch is not one")
	}
	return nil
}

func checkSeal(e Entry) error {
	s := e.Seal
	if s == nil {
		return nil
	}
	if !isName(s.Session) || !isDigest(s.SealDigest) || s.Number < 1 {
		return errors.New("seal: session, digest or number is not one")
	}
	switch s.Verdict {
	case "PASS", "FAIL", "INDETERMINATE":
		return nil
	}
	return fmt.Errorf("seal: verdict %q", s.Verdict)
}

func isName(s string) bool {
	return s != "" && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) < 0
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && strings.ToLower(s) == s
}
