package closure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"deps.dev/util/resolve"
	"deps.dev/util/resolve/dep"
	"deps.dev/util/resolve/npm"

	"github.com/proctor-project/proctor/sidecar/packages"
)

// Limits of one closure. The zero value means the defaults.
type Limits struct {
	Members   int           // default 5,000
	Documents int           // of the registry; default 3,000
	Bytes     int64         // of all documents; default 1 GiB
	Timeout   time.Duration // for everything; default 5 minutes
}

func (l Limits) filled() Limits {
	l.Members = cmp.Or(l.Members, 5000)
	l.Documents = cmp.Or(l.Documents, 3000)
	l.Bytes = cmp.Or(l.Bytes, 1<<30)
	l.Timeout = cmp.Or(l.Timeout, 5*time.Minute)
	return l
}

// Registry is what a closure asks; *packages.Client is one.
type Registry interface {
	Document(ctx context.Context, name string) (*packages.Document, error)
}

// Member is one package of a closure.
type Member struct {
	packages.Identity
	Optional bool     // nothing but optional dependencies leads to it
	OS, CPU  []string // platforms that it is for; empty means any
	Scripts  bool     // has install scripts
}

// MaxDocument is a bound for the client of a closure, in bytes: ranges need whole
// documents, and some packages that many depend on have more than the client reads
// on its own.
const MaxDocument = 64 << 20

// rootName is a package that no registry can have.
const rootName = ".root"

// Resolve answers with the package and everything that installing it brings, by
// name and version.
func Resolve(ctx context.Context, registry Registry, root packages.Identity, limits Limits) ([]Member, error) {
	limits = limits.filled()
	ctx, cancel := context.WithTimeout(ctx, limits.Timeout)
	defer cancel()
	s := newSource(ctx, registry, root, limits)
	defer s.wait()
	defer cancel()
	g, err := npm.NewResolver(s).Resolve(ctx, key(rootName, "0.0.0", resolve.Concrete))
	if first := s.failed(); first != nil {
		return nil, first // what the resolver says is what came of it
	}
	if err != nil && ctx.Err() != nil {
		return nil, &packages.Error{Reason: packages.TimedOut, Subject: root.Spec(), Detail: "within " + limits.Timeout.String(), Err: err}
	}
	if err != nil {
		return nil, &packages.Error{Reason: packages.Unsatisfiable, Subject: root.Spec(), Err: err}
	}
	if err := s.unsatisfied(g); err != nil {
		return nil, err
	}
	return s.members(g)
}

// unsatisfied refuses a tree in which something is missing that is not optional.
func (s *source) unsatisfied(g *resolve.Graph) error {
	var errs []error
	for _, n := range g.Nodes {
		for _, e := range n.Errors {
			if !s.optional(n.Version, e.Req.Name) {
				errs = append(errs, &packages.Error{
					Reason: packages.Unsatisfiable, Subject: e.Req.Name + "@" + e.Req.Version, Detail: "needed by " + n.Version.Name + "@" + n.Version.Version,
				})
			}
		}
	}
	return errors.Join(errs...)
}

// members are the graph's packages, each once.
func (s *source) members(g *resolve.Graph) ([]Member, error) {
	needed := neededNodes(g)
	byKey := map[resolve.VersionKey]*Member{}
	for i, n := range g.Nodes {
		if n.Version.Name == rootName {
			continue
		}
		m := byKey[n.Version]
		if m == nil {
			manifest, err := s.manifest(n.Version)
			if err != nil {
				return nil, err
			}
			m = &Member{Identity: manifest.Identity, OS: manifest.OS, CPU: manifest.CPU, Scripts: manifest.Scripts, Optional: true}
			byKey[n.Version] = m
		}
		m.Optional = m.Optional && !needed[i]
	}
	if len(byKey) > s.limits.Members {
		return nil, &packages.Error{Reason: packages.TooManyMembers, Subject: s.root.Spec(), Detail: fmt.Sprintf("more than %d", s.limits.Members)}
	}
	all := make([]Member, 0, len(byKey))
	for _, m := range byKey {
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b Member) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version)) })
	return all, nil
}

// neededNodes are those that a path without optional dependencies leads to.
func neededNodes(g *resolve.Graph) []bool {
	to := make([][]resolve.NodeID, len(g.Nodes))
	for _, e := range g.Edges {
		if !e.Type.HasAttr(dep.Opt) {
			to[e.From] = append(to[e.From], e.To)
		}
	}
	needed := make([]bool, len(g.Nodes))
	queue := []resolve.NodeID{0}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		if !needed[n] {
			needed[n] = true
			queue = append(queue, to[n]...)
		}
	}
	return needed
}

func key(name, version string, kind resolve.VersionType) resolve.VersionKey {
	return resolve.VersionKey{PackageKey: resolve.PackageKey{System: resolve.NPM, Name: name}, VersionType: kind, Version: version}
}
