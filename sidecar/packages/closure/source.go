package closure

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"deps.dev/util/resolve"
	"deps.dev/util/resolve/dep"
	"deps.dev/util/resolve/version"

	"github.com/proctor-project/proctor/sidecar/packages"
)

// source answers the resolver from the registry's documents. It implements
// resolve.Client.
type source struct {
	ctx      context.Context // ends with the closure; loads run ahead of the resolver
	registry Registry
	root     packages.Identity
	limits   Limits
	slots    chan struct{}
	running  sync.WaitGroup

	mu       sync.Mutex
	loads    map[string]*load
	bytes    int64
	err      error // the first that ends the closure
	versions map[string][]resolve.Version
	matches  map[resolve.VersionKey][]resolve.Version
}

// load is one document that is, or will be, there.
type load struct {
	done chan struct{}
	doc  *packages.Document
	err  error
}

// atOnce is how many documents are fetched side by side.
const atOnce = 8

func newSource(ctx context.Context, r Registry, root packages.Identity, l Limits) *source {
	return &source{
		ctx: ctx, registry: r, root: root, limits: l, slots: make(chan struct{}, atOnce),
		loads: map[string]*load{}, versions: map[string][]resolve.Version{}, matches: map[resolve.VersionKey][]resolve.Version{},
	}
}

// wait ends when no load runs any longer.
func (s *source) wait() { s.running.Wait() }

// failed is why the closure ended early.
func (s *source) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail keeps the first error.
func (s *source) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return err
}

// start begins to load the document, once.
func (s *source) start(name string) (*load, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.loads[name]; ok {
		return l, nil
	}
	if len(s.loads) >= s.limits.Documents {
		return nil, &packages.Error{Reason: packages.TooManyMembers, Subject: s.root.Spec(), Detail: fmt.Sprintf("more than %d packages", s.limits.Documents)}
	}
	l := &load{done: make(chan struct{})}
	s.loads[name] = l
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		defer close(l.done)
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
			l.doc, l.err = s.registry.Document(s.ctx, name)
		case <-s.ctx.Done():
			l.err = &packages.Error{Reason: packages.TimedOut, Subject: name, Err: s.ctx.Err()}
		}
	}()
	return l, nil
}

// document waits for one. A package that the registry does not have is no error
// yet: it may be optional.
func (s *source) document(name string) (*packages.Document, error) {
	l, err := s.start(name)
	if err != nil {
		return nil, s.fail(err)
	}
	<-l.done
	if l.err != nil {
		if packages.ReasonOf(l.err) == packages.Unknown {
			return nil, l.err
		}
		return nil, s.fail(l.err)
	}
	s.mu.Lock()
	counted := s.versions[name] != nil
	if !counted {
		s.bytes += int64(l.doc.Size())
		s.versions[name] = versionsOf(name, l.doc)
	}
	over := s.bytes > s.limits.Bytes
	s.mu.Unlock()
	if over {
		return nil, s.fail(&packages.Error{Reason: packages.TooLarge, Subject: s.root.Spec(), Detail: "the registry's documents about its closure"})
	}
	return l.doc, nil
}

func versionsOf(name string, d *packages.Document) []resolve.Version {
	tags := map[string][]string{}
	for tag, v := range d.Tags() {
		tags[v] = append(tags[v], tag)
	}
	names, deprecated := d.Versions()
	all := make([]resolve.Version, 0, len(names))
	for _, v := range names {
		rv := resolve.Version{VersionKey: key(name, v, resolve.Concrete)}
		if t := tags[v]; len(t) > 0 {
			slices.Sort(t)
			rv.SetAttr(version.Tags, strings.Join(t, ","))
		}
		if deprecated[v] {
			rv.SetAttr(version.Blocked, "")
		}
		all = append(all, rv)
	}
	return all
}

// Version implements resolve.Client.
func (s *source) Version(ctx context.Context, vk resolve.VersionKey) (resolve.Version, error) {
	if vk.Name == rootName {
		return resolve.Version{VersionKey: vk}, nil
	}
	all, err := s.Versions(ctx, vk.PackageKey)
	if err != nil {
		return resolve.Version{}, err
	}
	for _, v := range all {
		if v.VersionKey == vk {
			return v, nil
		}
	}
	return resolve.Version{}, fmt.Errorf("%v: %w", vk, resolve.ErrNotFound)
}

// Versions implements resolve.Client.
func (s *source) Versions(_ context.Context, pk resolve.PackageKey) ([]resolve.Version, error) {
	if _, err := s.document(pk.Name); err != nil {
		if packages.ReasonOf(err) == packages.Unknown {
			return nil, nil
		}
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.versions[pk.Name]), nil
}

// MatchingVersions implements resolve.Client.
func (s *source) MatchingVersions(ctx context.Context, vk resolve.VersionKey) ([]resolve.Version, error) {
	if vk.Name == rootName {
		return nil, nil
	}
	s.mu.Lock()
	known, ok := s.matches[vk]
	s.mu.Unlock()
	if ok {
		return slices.Clone(known), nil
	}
	all, err := s.Versions(ctx, vk.PackageKey)
	if err != nil {
		return nil, err
	}
	found := resolve.MatchRequirement(vk, all)
	s.mu.Lock()
	s.matches[vk] = slices.Clone(found)
	s.mu.Unlock()
	return found, nil
}

// Requirements implements resolve.Client.
func (s *source) Requirements(_ context.Context, vk resolve.VersionKey) ([]resolve.RequirementVersion, error) {
	if vk.Name == rootName {
		return []resolve.RequirementVersion{{VersionKey: key(s.root.Name, s.root.Version, resolve.Requirement)}}, nil
	}
	m, err := s.manifest(vk)
	if err != nil {
		return nil, s.fail(err)
	}
	var all []resolve.RequirementVersion
	add := func(name, text string, t dep.Type) error {
		r, err := requirement(m.Spec(), name, text, t)
		if err != nil {
			return s.fail(err)
		}
		all = append(all, r)
		if _, err = s.start(r.Name); err != nil { // ahead of the question
			return s.fail(err)
		}
		return nil
	}
	for _, group := range groupsOf(m) {
		for name, text := range group.members {
			if err := add(name, text, group.kind); err != nil {
				return nil, err
			}
		}
	}
	resolve.SortDependencies(all)
	return all, nil
}

type group struct {
	members map[string]string
	kind    dep.Type
}

// groupsOf sorts a package's dependencies, each name into one group: optional
// before ordinary before peer, and none that is bundled.
func groupsOf(m packages.Manifest) []group {
	taken := map[string]bool{}
	for name := range m.Bundled {
		taken[name] = true
	}
	pick := func(from map[string]string) map[string]string {
		picked := map[string]string{}
		for name, text := range from {
			if !taken[name] {
				picked[name] = text
			}
		}
		for name := range picked {
			taken[name] = true
		}
		return picked
	}
	optional := pick(m.Optional)
	return []group{{optional, dep.NewType(dep.Opt)}, {pick(m.Dependencies), dep.Type{}}, {pick(m.Peers), dep.Type{}}}
}

// requirement reads what npm would: a range, a tag, or an alias of one.
func requirement(parent, name, text string, t dep.Type) (resolve.RequirementVersion, error) {
	var r resolve.RequirementVersion
	subject := parent + " > " + name
	target, wanted := name, text
	if alias, ok := strings.CutPrefix(text, "npm:"); ok {
		at := strings.LastIndexByte(alias, '@')
		if target, wanted = alias, ""; at > 0 {
			target, wanted = alias[:at], alias[at+1:]
		}
		t = t.Clone()
		t.AddAttr(dep.KnownAs, name)
	}
	if err := packages.CheckName(target); err != nil {
		return r, &packages.Error{Reason: packages.BadName, Subject: subject, Err: err}
	}
	if strings.ContainsAny(wanted, ":/\\") {
		return r, &packages.Error{Reason: packages.NotRegistry, Subject: subject, Detail: text}
	}
	if strings.TrimSpace(wanted) == "" {
		wanted = "*"
	}
	return resolve.RequirementVersion{VersionKey: key(target, wanted, resolve.Requirement), Type: t}, nil
}

func (s *source) manifest(vk resolve.VersionKey) (packages.Manifest, error) {
	d, err := s.document(vk.Name)
	if err != nil {
		return packages.Manifest{}, err
	}
	m, err := d.Manifest(vk.Version)
	if err == nil && m.Name == s.root.Name && m.Version == s.root.Version && m.Identity != s.root {
		err = &packages.Error{Reason: packages.OtherIntegrity, Subject: s.root.Spec(), Detail: m.Integrity}
	}
	return m, err
}

// optional reports whether the package's dependency of the name may be missing.
func (s *source) optional(vk resolve.VersionKey, name string) bool {
	if vk.Name == rootName {
		return false
	}
	m, err := s.manifest(vk)
	if err != nil {
		return false
	}
	for alias, text := range m.Optional {
		r, err := requirement(m.Spec(), alias, text, dep.Type{})
		if err == nil && r.Name == name {
			return true
		}
	}
	return false
}

var _ resolve.Client = (*source)(nil)
