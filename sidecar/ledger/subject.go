package ledger

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// Decision is the operator's word on a path's content, a package or a host.
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

// PackageAct is what was decided about one package: an approval about exactly
// this registry, name, version and integrity, a denial about the version, or
// about every version where it has none. A revoke has no integrity.
type PackageAct struct {
	Registry  string     `json:"registry"` // its origin, without a slash at the end
	Name      string     `json:"name"`
	Version   string     `json:"version,omitempty"`
	Integrity string     `json:"integrity,omitempty"` // sha512- and base64
	Decision  Decision   `json:"decision,omitempty"`
	Note      string     `json:"note,omitempty"`
	Expires   *time.Time `json:"expires,omitempty"`
}

// HostAct is what was decided about one host and port. A host may begin with
// "*.", which stands for one or more labels.
type HostAct struct {
	Host     string     `json:"host"` // lower case
	Port     int        `json:"port"`
	Decision Decision   `json:"decision,omitempty"`
	Note     string     `json:"note,omitempty"`
	Expires  *time.Time `json:"expires,omitempty"`
}

// AnswerAct is the operator's answer to a request of a session's agent. What an
// approved one grants is an act of its own beside it.
type AnswerAct struct {
	Session  string   `json:"session"`
	Request  string   `json:"request"`
	SHA256   string   `json:"sha256"` // of the request as it was shown
	Decision Decision `json:"decision"`
	Reason   string   `json:"reason,omitempty"` // for the agent
}

const (
	maxPath = 4096
	maxNote = 4096
)

// checkDecision holds what all three subjects have in common against the kind.
func checkDecision(e Entry, what string, d Decision, note string, expires *time.Time) error {
	want := map[Kind]Decision{KindApprove: Approved, KindDeny: Denied, KindRevoke: ""}[e.Kind]
	switch {
	case d != want:
		return fmt.Errorf("%s: decision %q", what, d)
	case len(note) > maxNote || !utf8.ValidString(note):
		return fmt.Errorf("%s: note is too long, or not text", what)
	case expires != nil && (e.Kind != KindApprove || !expires.After(e.Time)):
		return fmt.Errorf("%s: expires is not after the act", what)
	}
	return nil
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
	if len(p.Scope) > maxName {
		return errors.New("path: scope too long")
	}
	if (e.Kind == KindRevoke) != (p.SHA256 == "") || (p.SHA256 != "" && !isDigest(p.SHA256)) {
		return errors.New("path: sha256 is missing or not one")
	}
	return checkDecision(e, "path", p.Decision, p.Note, p.Expires)
}

// checkPackage knows the form of an identity, not npm's rules: those are the
// packages' own, who says what may be asked for.
func checkPackage(e Entry) error {
	p := e.Package
	if p == nil {
		return nil
	}
	if !strings.Contains(p.Registry, "://") || strings.HasSuffix(p.Registry, "/") || !isToken(p.Registry, 2048) {
		return errors.New("package: registry is not an origin")
	}
	if !isToken(p.Name, maxName) || (p.Version != "" && !isToken(p.Version, maxName)) {
		return errors.New("package: name or version is not one")
	}
	if p.Version == "" && e.Kind == KindApprove {
		return errors.New("package: an approval is for one version")
	}
	if (e.Kind == KindApprove) != (p.Integrity != "") || (p.Integrity != "" && !isSHA512(p.Integrity)) {
		return errors.New("package: integrity is missing or not a sha512")
	}
	return checkDecision(e, "package", p.Decision, p.Note, p.Expires)
}

func checkHost(e Entry) error {
	h := e.Host
	if h == nil {
		return nil
	}
	if !isToken(h.Host, maxName) || strings.ToLower(h.Host) != h.Host || strings.Contains(strings.TrimPrefix(h.Host, "*."), "*") {
		return errors.New("host: not a name in lower case")
	}
	if h.Port < 1 || h.Port > 65535 {
		return fmt.Errorf("host: port %d", h.Port)
	}
	return checkDecision(e, "host", h.Decision, h.Note, h.Expires)
}

func checkAnswer(e Entry) error {
	a := e.Answer
	if a == nil {
		return nil
	}
	if !isName(a.Session) || !isName(a.Request) || !isDigest(a.SHA256) {
		return errors.New("answer: session, request or digest is not one")
	}
	if a.Decision != Approved && a.Decision != Denied {
		return fmt.Errorf("answer: decision %q", a.Decision)
	}
	if len(a.Reason) > maxNote || !utf8.ValidString(a.Reason) {
		return errors.New("answer: reason is too long, or not text")
	}
	return nil
}

// isToken reports whether s is printable ASCII without spaces.
func isToken(s string, most int) bool {
	return s != "" && len(s) <= most && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

func isSHA512(s string) bool {
	text, ok := strings.CutPrefix(s, "sha512-")
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	return ok && err == nil && len(b) == 64 && len(text) == base64.StdEncoding.EncodedLen(64) // the decoder skips line breaks
}
