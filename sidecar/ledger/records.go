package ledger

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// PackageRecord is the live decision about one version of a package, or about
// all of them.
type PackageRecord struct {
	PackageAct
	Time time.Time
	By   string
	Seq  uint64
}

// HostRecord is the live decision about one host and port.
type HostRecord struct {
	HostAct
	Time time.Time
	By   string
	Seq  uint64
}

// Answer is the operator's newest answer to a request.
type Answer struct {
	AnswerAct
	Time time.Time
	By   string
	Seq  uint64
}

type packageKey struct{ registry, name, version string }

type hostKey struct {
	host string
	port int
}

type answerKey struct{ session, request string }

func approvedAt(d Decision, expires *time.Time, now time.Time) bool {
	return d == Approved && (expires == nil || now.Before(*expires))
}

// Package returns the live record of exactly this version; an empty one stands
// for a decision about all versions.
func (s *State) Package(registry, name, version string) (PackageRecord, bool) {
	r, ok := s.packages[packageKey{registry, name, version}]
	return r, ok
}

// PackageApproved reports whether exactly this identity is approved now. A
// denial of the version, or of all versions, is stronger.
func (s *State) PackageApproved(registry, name, version, integrity string, now time.Time) bool {
	if _, denied := s.PackageDenied(registry, name, version); denied {
		return false
	}
	r, ok := s.Package(registry, name, version)
	return ok && version != "" && integrity != "" && r.Integrity == integrity && approvedAt(r.Decision, r.Expires, now)
}

// PackageDenied returns the denial of the version, or of all versions.
func (s *State) PackageDenied(registry, name, version string) (PackageRecord, bool) {
	for _, v := range []string{version, ""} {
		if r, ok := s.Package(registry, name, v); ok && r.Decision == Denied {
			return r, true
		}
	}
	return PackageRecord{}, false
}

// Packages returns every live record about packages, by name, version and
// registry.
func (s *State) Packages() []PackageRecord {
	all := slices.Collect(maps.Values(s.packages))
	slices.SortFunc(all, func(a, b PackageRecord) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version), strings.Compare(a.Registry, b.Registry))
	})
	return all
}

// PackageNamed returns every live record about a package of a registry, by
// version.
func (s *State) PackageNamed(registry, name string) []PackageRecord {
	var all []PackageRecord
	for k, r := range s.packages {
		if k.registry == registry && k.name == name {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b PackageRecord) int { return strings.Compare(a.Version, b.Version) })
	return all
}

// Host returns the live record of exactly this name, or pattern, and port.
func (s *State) Host(host string, port int) (HostRecord, bool) {
	r, ok := s.hosts[hostKey{host, port}]
	return r, ok
}

// Hosts returns every live record about hosts, by host and port.
func (s *State) Hosts() []HostRecord {
	all := slices.Collect(maps.Values(s.hosts))
	slices.SortFunc(all, func(a, b HostRecord) int { return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port)) })
	return all
}

// Answer returns the newest answer to a session's request.
func (s *State) Answer(session, request string) (Answer, bool) {
	a, ok := s.answers[answerKey{session, request}]
	return a, ok
}
