package ledger

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

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
	Path   *PathAct   `json:"path,omitempty"` // approve, deny, revoke
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

// Decision is the operator's word on a path's content.
type Decision string

// The decisions; there are no other spellings.
const (
	Approved Decision = "approved"
	Denied   Decision = "denied"
)

// PathAct is what was decided about one path. A revoke has the path only.
type PathAct struct {
	Path       string     `json:"path,omitempty"` // absolute and clean
	PathBase64 []byte     `json:"path_base64,omitempty"`
	SHA256     string     `json:"sha256,omitempty"` // of the content, hex
	Scope      string     `json:"scope,omitempty"`
	Decision   Decision   `json:"decision,omitempty"`
	Note       string     `json:"note,omitempty"` // at most 4096 bytes
	Expires    *time.Time `json:"expires,omitempty"`
}

// NewPath puts the path's bytes into the field that can hold them.
func NewPath(raw string) PathAct {
	if utf8.ValidString(raw) {
		return PathAct{Path: raw}
	}
	return PathAct{PathBase64: []byte(raw)}
}

// Raw is the path's bytes.
func (p PathAct) Raw() string {
	if p.PathBase64 != nil {
		return string(p.PathBase64)
	}
	return p.Path
}

const (
	maxBy   = 256
	maxPath = 4096
	maxNote = 4096
	maxName = 256
)

// validate refuses an act that is not whole. All problems are reported.
func (e Entry) validate() error {
	var problems []error
	for _, check := range []func(Entry) error{checkMeta, checkOnlyOne, checkInit, checkRotate, checkOpen, checkSeal, checkPath} {
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
	set := map[string]bool{"init": e.Init != nil, "rotate": e.Rotate != nil, "open": e.Open != nil, "seal": e.Seal != nil, "path": e.Path != nil}
	want := string(e.Kind)
	switch e.Kind {
	case KindApprove, KindDeny, KindRevoke:
		want = "path"
	case KindInit, KindRotate, KindOpen, KindSeal:
	default:
		return errors.New("unknown kind")
	}
	for name, is := range set {
		if is != (name == want) {
			return fmt.Errorf("field %q does not belong to the kind, or is missing", name)
		}
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

func checkPath(e Entry) error {
	p := e.Path
	if p == nil {
		return nil
	}
	raw := p.Raw()
	if (p.Path != "") == (p.PathBase64 != nil) || (p.PathBase64 != nil && utf8.Valid(p.PathBase64)) {
		return errors.New("path: exactly one of path and path_base64, the latter only where it is needed")
	}
	if !filepath.IsAbs(raw) || filepath.Clean(raw) != raw || len(raw) > maxPath || strings.Contains(raw, "\x00") {
		return errors.New("path: not absolute and clean")
	}
	if len(p.Note) > maxNote || len(p.Scope) > maxName {
		return errors.New("path: note or scope too long")
	}
	want := map[Kind]Decision{KindApprove: Approved, KindDeny: Denied, KindRevoke: ""}[e.Kind]
	if p.Decision != want {
		return fmt.Errorf("path: decision %q", p.Decision)
	}
	if (e.Kind == KindRevoke) != (p.SHA256 == "") || (p.SHA256 != "" && !isDigest(p.SHA256)) {
		return errors.New("path: sha256 is missing or not one")
	}
	if p.Expires != nil && (e.Kind != KindApprove || !p.Expires.After(e.Time)) {
		return errors.New("path: expires is not after the act")
	}
	return nil
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
