package packages

import (
	"errors"
	"fmt"
)

// Reason says why a package was refused. The list is closed.
type Reason string

// Why a spec or a document gives no identity.
const (
	BadName        Reason = "bad-name"         // not the name of a package of a registry
	BadVersion     Reason = "bad-version"      // not an exact version, and not a dist-tag
	NoRegistry     Reason = "no-registry"      // the policy names none
	Unreachable    Reason = "unreachable"      // no answer
	TimedOut       Reason = "timed-out"        // no whole answer within the total deadline
	Redirected     Reason = "redirected"       // the registry sent the request elsewhere
	Unknown        Reason = "unknown"          // the registry does not have the package
	BadStatus      Reason = "bad-status"       // any other status than 200
	TooLarge       Reason = "too-large"        // a document, a lock file or a closure over its bound
	Malformed      Reason = "malformed"        // not the JSON that it should be
	DuplicateKey   Reason = "duplicate-key"    // two readers could understand it differently
	OtherName      Reason = "other-name"       // the document is about another package
	NoTag          Reason = "no-tag"           // no such dist-tag
	InexactTag     Reason = "inexact-tag"      // the tag leads to no exact version
	NoVersion      Reason = "no-version"       // no such version, or its entry is no object
	OtherEntry     Reason = "other-entry"      // the version's entry says another name or version
	NoIntegrity    Reason = "no-integrity"     // nothing says what the bytes are
	WeakIntegrity  Reason = "weak-integrity"   // something, but not one sha512
	NotRegistry    Reason = "not-registry"     // git, file, link, alias or another address
	Unsatisfiable  Reason = "unsatisfiable"    // no version is in the range
	OtherIntegrity Reason = "other-integrity"  // the registry says other bytes than the operator
	TooManyMembers Reason = "too-many-members" // a closure or lock file over its bound
)

// Why a package with an identity is refused, and why one is not.
const (
	DeniedByPolicy  Reason = "denied-by-policy"
	NoIdentity      Reason = "no-identity"
	NotPinned       Reason = "not-pinned" // the command does not run exactly name@version
	DeniedByRecord  Reason = "denied-by-record"
	NotApproved     Reason = "not-approved"
	Broken          Reason = "broken" // the question could not be answered
	ApprovedRecord  Reason = "approved"
	AllowedByPolicy Reason = "allowed-by-policy"
)

// Words says the reason to a person.
func (r Reason) Words() string {
	if w, ok := reasonWords()[r]; ok {
		return w
	}
	return "refused"
}

func reasonWords() map[Reason]string {
	return map[Reason]string{
		BadName:        "is not the name of a package in a registry",
		BadVersion:     "is not an exact version or a dist-tag",
		NoRegistry:     "no package registry is configured",
		Unreachable:    "the registry did not answer",
		TimedOut:       "the registry did not answer in full in time",
		Redirected:     "the registry redirected the request, which is not followed",
		Unknown:        "the registry has no such package",
		BadStatus:      "the registry answered with an error",
		TooLarge:       "is too large",
		Malformed:      "is not well-formed",
		DuplicateKey:   "has a key twice, so that two readers would understand it differently",
		OtherName:      "the registry's document is about another package",
		NoTag:          "the registry has no such dist-tag",
		InexactTag:     "the dist-tag does not lead to an exact version",
		NoVersion:      "the registry has no such version",
		OtherEntry:     "the version's entry is about another package or version",
		NoIntegrity:    "the registry does not say what the package's bytes are",
		WeakIntegrity:  "the package's bytes are not named by one sha512",
		NotRegistry:    "does not come from the registry",
		Unsatisfiable:  "no version satisfies the range",
		OtherIntegrity: "the registry has other bytes than those named",
		TooManyMembers: "has too many members",

		DeniedByPolicy:  "is denied by the policy",
		NoIdentity:      "could not be resolved to an exact package",
		NotPinned:       "the command does not run exactly this version",
		DeniedByRecord:  "was denied",
		NotApproved:     "is not approved",
		Broken:          "could not be decided",
		ApprovedRecord:  "is approved",
		AllowedByPolicy: "is allowed by the policy",
	}
}

// Error is a refusal with its reason. Its text may hold bytes that a registry,
// a lock file or an agent chose; show it through package display.
type Error struct {
	Reason  Reason
	Subject string // the spec, the package, or the lock file's entry
	Detail  string // may be empty
	Err     error  // may be nil
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("package %q: %s", e.Subject, e.Reason.Words())
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns what the refusal comes from.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf is the reason of an error of this package, and Broken of any other.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return Broken
}

func refuse(r Reason, subject, detail string) error {
	return &Error{Reason: r, Subject: subject, Detail: detail}
}
