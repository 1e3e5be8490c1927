package wire

import "time"

// PackagesRequest is the operator's word on packages, from the host's side of
// the boundary: what was resolved there, and what is to be recorded.
type PackagesRequest struct {
	Schema   string     `json:"schema"` // "proctor/packages/v1"
	Act      string     `json:"act"`    // list, approve, deny or revoke
	User     string     `json:"user"`   // host user, as the launcher knows it
	Packages []Package  `json:"packages"`
	Note     string     `json:"note,omitempty"`
	Expires  *time.Time `json:"expires,omitempty"` // approve only
}

// Package is one package. An approval has all four; a denial has no integrity,
// and none or one version; a revocation has the name, and the version where it is
// about one.
type Package struct {
	Registry  string `json:"registry,omitempty"`
	Name      string `json:"name"`
	Version   string `json:"version,omitempty"`
	Integrity string `json:"integrity,omitempty"`
}

// PackagesReply is the answer: what was changed, or every live record.
type PackagesReply struct {
	Schema  string          `json:"schema"` // "proctor/packages-reply/v1"
	Records []PackageRecord `json:"records"`
	// Same is how many of an approval's packages were approved so already;
	// nothing was recorded for them.
	Same   int    `json:"same"`
	Anchor Anchor `json:"anchor"`
}

// PackageRecord is one decision about a package: live, or, in the answer to a
// revocation, the one that has ended.
type PackageRecord struct {
	Package
	Decision string     `json:"decision"`
	Note     string     `json:"note,omitempty"`
	By       string     `json:"by"`
	Recorded time.Time  `json:"recorded"`
	Expires  *time.Time `json:"expires,omitempty"`
	Act      uint64     `json:"act"`
	// Stale is why npm would not read the version as one; such a record grants
	// nothing.
	Stale string `json:"stale,omitempty"`
}
