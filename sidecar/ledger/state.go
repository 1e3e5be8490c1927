package ledger

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// State is what a ledger's acts amount to at one moment. It never changes.
type State struct {
	control   string
	at        links
	hashes    [][32]byte // chain hash after each act
	decisions map[string]Record
	packages  map[packageKey]PackageRecord
	hosts     map[hostKey]HostRecord
	answers   map[answerKey]Answer
	sessions  map[string]Session
	rotates   []Entry
}

// Record is the live decision about one path.
type Record struct {
	PathAct
	Time time.Time
	By   string
	Seq  uint64
}

// Session is what the ledger knows of a session.
type Session struct {
	ID     string
	Opens  []OpenAct // the first, and one for each audit
	Opened time.Time
	Seal   *SealAct // the newest
	Sealed time.Time
}

func newState(control string) *State {
	return &State{
		control: control, at: start(control), decisions: map[string]Record{}, sessions: map[string]Session{},
		packages: map[packageKey]PackageRecord{}, hosts: map[hostKey]HostRecord{}, answers: map[answerKey]Answer{},
	}
}

// clone is a state that can be changed while the old one is in use.
func (s *State) clone() *State {
	c := *s
	c.hashes = slices.Clip(s.hashes)
	c.decisions = maps.Clone(s.decisions)
	c.packages, c.hosts, c.answers = maps.Clone(s.packages), maps.Clone(s.hosts), maps.Clone(s.answers)
	c.sessions = maps.Clone(s.sessions)
	c.rotates = slices.Clip(s.rotates)
	return &c
}

// apply adds an act that is known to be valid; nil is a dropped one.
func (s *State) apply(e *Entry, at links) error {
	if e != nil {
		if err := s.act(e); err != nil {
			return &BrokenError{Seq: e.Seq, Reason: err.Error()}
		}
	}
	s.at = at
	s.hashes = append(s.hashes, at.hash)
	return nil
}

func (s *State) act(e *Entry) error {
	switch e.Kind {
	case KindInit:
		if e.Init.ControlID != s.control {
			return fmt.Errorf("init of control %q", e.Init.ControlID)
		}
	case KindRotate:
		s.rotates = append(s.rotates, *e)
	case KindOpen:
		o := s.sessions[e.Open.Session]
		o.ID = e.Open.Session
		if len(o.Opens) == 0 {
			o.Opened = e.Time
		}
		o.Opens = append(slices.Clip(o.Opens), *e.Open)
		s.sessions[o.ID] = o
	case KindSeal:
		o := s.sessions[e.Seal.Session]
		o.ID = e.Seal.Session
		if o.Seal != nil && e.Seal.Number <= o.Seal.Number {
			return fmt.Errorf("seal %d of session %q after seal %d", e.Seal.Number, o.ID, o.Seal.Number)
		}
		o.Seal, o.Sealed = e.Seal, e.Time
		s.sessions[o.ID] = o
	case KindApprove, KindDeny, KindRevoke:
		s.decide(e)
	case KindAnswer:
		s.answers[answerKey{e.Answer.Session, e.Answer.Request}] = Answer{AnswerAct: *e.Answer, Time: e.Time, By: e.By, Seq: e.Seq}
	}
	return nil
}

// decide makes the act the last word on what it is about.
func (s *State) decide(e *Entry) {
	gone := e.Kind == KindRevoke
	switch {
	case e.Path != nil:
		put(s.decisions, e.Path.Raw(), Record{PathAct: *e.Path, Time: e.Time, By: e.By, Seq: e.Seq}, gone)
	case e.Package != nil:
		p := e.Package
		put(s.packages, packageKey{p.Registry, p.Name, p.Version}, PackageRecord{PackageAct: *p, Time: e.Time, By: e.By, Seq: e.Seq}, gone)
	case e.Host != nil:
		put(s.hosts, hostKey{e.Host.Host, e.Host.Port}, HostRecord{HostAct: *e.Host, Time: e.Time, By: e.By, Seq: e.Seq}, gone)
	}
}

func put[K comparable, V any](m map[K]V, k K, v V, gone bool) {
	if gone {
		delete(m, k)
		return
	}
	m[k] = v
}

// Count is the number of acts.
func (s *State) Count() uint64 { return s.at.count }

// Anchor is what to remember of the ledger outside control.
func (s *State) Anchor() Anchor {
	return Anchor{ControlID: s.control, Count: s.at.count, Hash: hex.EncodeToString(s.at.hash[:])}
}

// Decision returns the live record of a path.
func (s *State) Decision(path string) (Record, bool) {
	r, ok := s.decisions[path]
	return r, ok
}

// Decisions returns every live record, by path.
func (s *State) Decisions() []Record {
	all := slices.Collect(maps.Values(s.decisions))
	slices.SortFunc(all, func(a, b Record) int { return strings.Compare(a.Raw(), b.Raw()) })
	return all
}

// Approved reports whether exactly this content is approved for the path now.
// It reads nothing: the caller supplies the digest of the bytes that it is
// about to use.
func (s *State) Approved(path string, sum [32]byte, now time.Time) bool {
	r, ok := s.decisions[path]
	return ok && r.SHA256 == hex.EncodeToString(sum[:]) && approvedAt(r.Decision, r.Expires, now)
}

// Session returns what is known of a session.
func (s *State) Session(id string) (Session, bool) {
	o, ok := s.sessions[id]
	return o, ok
}

// LastSeal returns the seal of the session that counts.
func (s *State) LastSeal(id string) (SealAct, bool) {
	if o := s.sessions[id]; o.Seal != nil {
		return *o.Seal, true
	}
	return SealAct{}, false
}

// Sessions returns every session, by id.
func (s *State) Sessions() []Session {
	all := slices.Collect(maps.Values(s.sessions))
	slices.SortFunc(all, func(a, b Session) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Rotations returns the acts that began a new epoch, oldest first.
func (s *State) Rotations() []Entry { return slices.Clone(s.rotates) }
