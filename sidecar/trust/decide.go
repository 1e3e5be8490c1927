package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/proctor-project/proctor/sidecar/ledger"
)

// Reason is why something is allowed or not.
type Reason string

// The reasons; there are no others.
const (
	ReasonApproved   Reason = "approved"
	ReasonNoRecord   Reason = "no_record"
	ReasonDenied     Reason = "denied"
	ReasonChanged    Reason = "content_changed" // since it was approved
	ReasonExpired    Reason = "expired"
	ReasonUnreadable Reason = "unreadable" // the content, or the ledger
)

// Decision is the answer about one path and content.
type Decision struct {
	Allowed bool
	Reason  Reason
	// Since is the time of the record that decided, zero without one; Note is
	// what the operator wrote there.
	Since time.Time
	Note  string
	Act   uint64 // the record's number in the ledger
}

// Decide judges content by its digest. A denial holds for the path, whatever
// the content.
func Decide(s *ledger.State, path string, sum [sha256.Size]byte, now time.Time) Decision {
	r, ok := s.Decision(path)
	if !ok {
		return Decision{Reason: ReasonNoRecord}
	}
	d := Decision{Since: r.Time, Note: r.Note, Act: r.Seq}
	switch {
	case s.Approved(path, sum, now):
		d.Allowed, d.Reason = true, ReasonApproved
	case r.Decision == ledger.Denied:
		d.Reason = ReasonDenied
	case r.SHA256 != hex.EncodeToString(sum[:]):
		d.Reason = ReasonChanged
	case r.Expires != nil && !now.Before(*r.Expires):
		d.Reason = ReasonExpired
	default:
		d.Reason = ReasonNoRecord // approved, by a rule that this one does not know
	}
	return d
}

// Store is the ledger as a caller that only asks sees it.
type Store struct {
	// View returns the state of now; each decision calls it anew, so that an
	// approval or its end counts from the next decision on.
	View func() (*ledger.State, error)
}

// Decide judges content by its digest. A ledger that cannot be read decides
// that nothing is allowed.
func (s Store) Decide(path string, sum [sha256.Size]byte) Decision {
	state, err := s.View()
	if err != nil {
		return Decision{Reason: ReasonUnreadable}
	}
	return Decide(state, path, sum, time.Now())
}

// Approved reports whether exactly this content is approved for the absolute
// path. It never fails: everything that is not a yes is a no.
func (s Store) Approved(path string, content []byte) bool {
	return s.Decide(path, sha256.Sum256(content)).Allowed
}
