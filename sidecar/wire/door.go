package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// The kinds of subject.
const (
	SubjectFile    = "file"
	SubjectPackage = "package"
	SubjectHost    = "host"
)

// Subject is what is decided and asked for: one content of a file, one version of
// a package, or one host and port. Kind says which other fields are set.
type Subject struct {
	Kind    string `json:"kind"`
	Path    *Path  `json:"path,omitempty"`    // absolute and clean
	SHA256  string `json:"sha256,omitempty"`  // of the file's content
	Package string `json:"package,omitempty"` // name@version
	Host    string `json:"host,omitempty"`    // name:port
}

// MaxSubject is the longest path, package or host, in bytes.
const MaxSubject = 4096

// Check refuses a subject that is not whole. What a package or a host may be
// called is for those who decide about them.
func (s Subject) Check() error {
	set := map[string]bool{"path": s.Path != nil, "sha256": s.SHA256 != "", "package": s.Package != "", "host": s.Host != ""}
	want := map[string][]string{SubjectFile: {"path", "sha256"}, SubjectPackage: {"package"}, SubjectHost: {"host"}}[s.Kind]
	if want == nil {
		return fmt.Errorf("kind %q is none of file, package, host", s.Kind)
	}
	for _, name := range want {
		if !set[name] {
			return fmt.Errorf("%s is missing", name)
		}
		delete(set, name)
	}
	for name, is := range set {
		if is {
			return fmt.Errorf("%s does not belong to a %s", name, s.Kind)
		}
	}
	if s.Path != nil {
		return s.checkFile()
	}
	if name := s.Package + s.Host; len(name) > MaxSubject || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' }) {
		return fmt.Errorf("%s is not a name", s.Kind)
	}
	return nil
}

func (s Subject) checkFile() error {
	raw := s.Path.Raw()
	if (s.Path.Path != "") == (s.Path.Base64 != nil) || !filepath.IsAbs(raw) || filepath.Clean(raw) != raw || len(raw) > MaxSubject || strings.Contains(raw, "\x00") {
		return errors.New("path is not absolute and clean")
	}
	if b, err := hex.DecodeString(s.SHA256); err != nil || len(b) != sha256.Size || strings.ToLower(s.SHA256) != s.SHA256 {
		return errors.New("sha256 is not one")
	}
	return nil
}

// Name is the subject without a file's content: what two subjects about the same
// thing have in common.
func (s Subject) Name() string {
	if s.Path != nil {
		return s.Path.Raw()
	}
	return s.Package + s.Host
}

// Digest is over the whole subject: an approval of what was shown names it.
func (s Subject) Digest() string {
	b, err := json.Marshal(s)
	if err != nil {
		return "" // no value of the type fails
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Decided is serve's answer about a subject, and the record's row of it.
type Decided struct {
	Schema  string  `json:"schema"` // "proctor/decision/v1"
	Subject Subject `json:"subject"`
	Allowed bool    `json:"allowed"`
	Reason  string  `json:"reason"`
	Note    string  `json:"note,omitempty"`   // what the operator wrote
	Remedy  string  `json:"remedy,omitempty"` // for the agent
}

// Ask is what the agent asks the operator for.
type Ask struct {
	Schema  string  `json:"schema"` // "proctor/ask/v1"
	Subject Subject `json:"subject"`
	Text    string  `json:"text"` // why, in the agent's own words
}

// The states of a request.
const (
	RequestWaiting  = "waiting"
	RequestApproved = "approved"
	RequestDenied   = "denied"
)

// Request is one request of a session's agent, as it stands.
type Request struct {
	Schema  string    `json:"schema"` // "proctor/request/v1"
	ID      string    `json:"id"`     // r-1 and up
	Subject Subject   `json:"subject"`
	SHA256  string    `json:"sha256"` // of the subject
	Text    string    `json:"text"`
	Asked   time.Time `json:"asked"`
	State   string    `json:"state"`
	Answer  string    `json:"answer,omitempty"` // the operator's words
}
