package audit

import (
	"encoding/hex"
	"unicode/utf8"

	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/product"
)

// Status is how a path differs from the baseline.
type Status string

// The statuses.
const (
	StatusNew     Status = "new"
	StatusChanged Status = "changed"
	StatusRemoved Status = "removed"
)

// Finding is one change that fails the audit unless it is approved, or one thing
// that could not be looked at. Exactly one of Path and PathBase64 is set, or none
// for a finding about the whole tree. The digests are hex and of the content, ""
// where there is none.
type Finding struct {
	Class          Class  `json:"class"`
	Kind           string `json:"kind"`
	Path           string `json:"path,omitempty"`
	PathBase64     []byte `json:"path_base64,omitempty"`
	Detail         string `json:"detail,omitempty"`
	Status         Status `json:"status,omitempty"`
	BaselineSHA256 string `json:"baseline_sha256,omitempty"`
	SHA256         string `json:"sha256,omitempty"`
	Approvable     bool   `json:"approvable"` // by content: an approval of SHA256 would cover it
	Approved       bool   `json:"approved"`
	// References are files of the tree that the content names and that are not
	// approved themselves.
	References []string `json:"references,omitempty"`
	Package    *Package `json:"package,omitempty"` // of a lock file's entry
}

// Review is one change that somebody should look at and that fails nothing.
type Review struct {
	Class          Class    `json:"class"`
	Kind           string   `json:"kind"`
	Path           string   `json:"path,omitempty"`
	PathBase64     []byte   `json:"path_base64,omitempty"`
	Detail         string   `json:"detail,omitempty"`
	Status         Status   `json:"status"`
	BaselineSHA256 string   `json:"baseline_sha256,omitempty"`
	SHA256         string   `json:"sha256,omitempty"`
	Package        *Package `json:"package,omitempty"` // of a lock file's entry
}

// RawPath is the finding's path as bytes.
func (f Finding) RawPath() string { return rawPath(f.Path, f.PathBase64) }

// RawPath is the review's path as bytes.
func (r Review) RawPath() string { return rawPath(r.Path, r.PathBase64) }

func rawPath(text string, raw []byte) string {
	if len(raw) > 0 {
		return string(raw)
	}
	return text
}

// splitPath puts path into the field that can hold it.
func splitPath(path string) (text string, raw []byte) {
	if utf8.ValidString(path) {
		return path, nil
	}
	return "", []byte(path)
}

// Result is what Judge found. Findings and Reviews are in the order of the
// stream; what is over their limits is counted, and fails the audit.
type Result struct {
	Findings []Finding
	Reviews  []Review
	Baseline product.Summary
	Final    product.Summary
	// Indexes has the IndexDigest of every git index in the final tree.
	Indexes map[string][32]byte
	// Packages are the approved identities that the result relies on.
	Packages []packages.Identity
	Added    int64
	Changed  int64
	Removed  int64
}

// Unapproved is how many findings stand that are not approved.
func (r *Result) Unapproved() int {
	n := 0
	for i := range r.Findings {
		if !r.Findings[i].Approved {
			n++
		}
	}
	return n
}

func hexOf(sum [32]byte) string {
	if sum == ([32]byte{}) {
		return ""
	}
	return hex.EncodeToString(sum[:])
}
