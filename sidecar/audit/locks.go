package audit

import (
	"fmt"
	"strings"

	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/product"
)

// Packages answers for packages that the product's lock files name.
type Packages interface {
	// Registry is the origin that packages come from; "" is none.
	Registry() string
	// Decide answers for one identity; it must answer the same each time.
	Decide(packages.Identity) packages.Decision
	// Archive is what the package's tarball holds, where it is at hand.
	Archive(packages.Identity) (*packages.Archive, bool)
}

// Package is the package that a finding is about.
type Package struct {
	Name      string          `json:"name"`
	Version   string          `json:"version"`
	Integrity string          `json:"integrity,omitempty"`
	Reason    packages.Reason `json:"reason"`
	Line      int             `json:"line,omitempty"` // of Path, where it is named first
	Places    int             `json:"places"`         // in all lock files
}

const (
	modules = "node_modules"
	// maxPackages bounds the approvals that one verdict can rely on.
	maxPackages = 3000
	// maxLocked bounds the entries of all lock files that are kept to find a
	// directory's package.
	maxLocked = 100_000
)

// locks is what a pass learns of lock files.
type locks struct {
	places   map[string][]packages.Identity // by the directory that an entry is installed in
	count    int
	found    map[foundKey]*found
	order    []*found
	relied   map[packages.Identity]bool
	promised map[string]bool // kind and detail
}

type foundKey struct {
	name, version, integrity string
	reason                   packages.Reason
}

// found is a package that is not approved.
type found struct {
	change change
	pkg    Package
}

func newLocks() *locks {
	return &locks{places: map[string][]packages.Identity{}, found: map[foundKey]*found{}, relied: map[packages.Identity]bool{}, promised: map[string]bool{}}
}

// lock looks at a lock file of the final tree. What the file named before, at
// whatever place, is not new.
func (j *judge) lock(c change, b, n *record, changed bool) {
	if n.Type == product.TypeSymlink && changed {
		t := c
		t.class, t.kind, t.detail = ClassTrap, "link", "a link in a lock file's place"
		j.add(t)
		return
	}
	known := map[[32]byte]bool{}
	had := map[string]bool{}
	if b != nil {
		for _, f := range b.facts {
			if f.Kind == product.FactPackage {
				known[f.SHA256], had[f.Name] = true, true
			}
		}
	}
	for _, f := range n.facts {
		if f.Kind != product.FactPackage {
			continue
		}
		e, line, ok := readLockFact(f)
		if ok {
			j.keep(lockRoot(c.path), e)
		}
		if known[f.SHA256] {
			continue
		}
		t := c
		if t.status = StatusNew; had[f.Name] {
			t.status = StatusChanged
		}
		j.entry(t, e, line, ok)
	}
}

// keep remembers where an entry is installed.
func (j *judge) keep(root string, e packages.LockEntry) {
	id, err := e.Identity(j.registry())
	if err != nil {
		return
	}
	if j.locks.count++; j.locks.count > maxLocked {
		return
	}
	place := join(root, e.Place)
	j.locks.places[place] = append(j.locks.places[place], id)
}

// bundled reports whether the nearest package above the entry that is one of the
// registry is approved and has it in its archive, with these programs, whatever
// lock file names that package: npm fetches what it does not find there.
func (j *judge) bundled(root string, e packages.LockEntry) bool {
	for at, ok := e.Parent(); ok; at, ok = (packages.LockEntry{Place: at}).Parent() {
		ids := j.locks.places[join(root, at)]
		for _, id := range ids {
			if r := j.decide(id); r != packages.ApprovedRecord && r != packages.AllowedByPolicy {
				return false
			}
			a, there := j.in.Packages.Archive(id)
			if !there {
				return false
			}
			inside := strings.TrimPrefix(e.Installed(), at+"/")
			if _, has := a.Files[inside+"/package.json"]; !has || a.ForeignBin(inside, e.Bins) != "" {
				return false
			}
		}
		if len(ids) > 0 {
			return true
		}
	}
	return false
}

func (j *judge) registry() string {
	if j.in.Packages == nil {
		return ""
	}
	return j.in.Packages.Registry()
}

// entry judges one entry that is new or changed.
func (j *judge) entry(c change, e packages.LockEntry, line int, ok bool) {
	if ok && e.Covered() && j.bundled(lockRoot(c.path), e) {
		return
	}
	reason := packages.Malformed
	if ok {
		reason = j.reason(e)
	}
	if reason == packages.ApprovedRecord || reason == packages.AllowedByPolicy {
		j.promises(c, e)
		return
	}
	k := foundKey{e.Name, e.Version, e.Integrity, reason}
	if f := j.locks.found[k]; f != nil {
		f.pkg.Places++
		return
	}
	if len(j.locks.order) == MaxFindings {
		j.lost++
		return
	}
	c.class, c.kind, c.final = ClassTree, packageKind(reason), true
	c.detail = product.Text(e.Name + "@" + e.Version)
	if c.kind == "package-foreign" {
		c.detail = product.Text(e.Place + " " + reason.Words())
	}
	f := &found{change: c, pkg: Package{
		Name: product.Text(e.Name), Version: product.Text(e.Version), Integrity: product.Text(e.Integrity), Reason: reason, Line: line, Places: 1,
	}}
	j.locks.found[k], j.locks.order = f, append(j.locks.order, f)
}

// promises looks at what a lock file says of an approved package and npm does
// not look up in it: the name that it is installed under, and its programs.
func (j *judge) promises(c change, e packages.LockEntry) {
	if e.Alias {
		c.class, c.kind = ClassReview, "package-alias"
		j.promise(c, e.Place+" is "+e.Name+"@"+e.Version)
	}
	id, err := e.Identity(j.registry())
	if err != nil || len(e.Bins) == 0 {
		return
	}
	a, there := j.in.Packages.Archive(id)
	if !there {
		c.class, c.kind = ClassReview, "package-bin"
		j.promise(c, "programs of "+id.Spec()+" were not compared: its archive is not at hand")
		return
	}
	if name := a.ForeignBin("", e.Bins); name != "" {
		c.class, c.kind, c.final = ClassTree, "package-bin", true
		j.promise(c, fmt.Sprintf("program %s is not %s in %s", name, e.Bins[name], id.Spec()))
	}
}

// promise adds what it says once, however many entries and lock files say it.
func (j *judge) promise(c change, detail string) {
	c.detail = product.Text(detail)
	if key := c.kind + " " + c.detail; !j.locks.promised[key] {
		j.locks.promised[key] = true
		j.add(c)
	}
}

func (j *judge) reason(e packages.LockEntry) packages.Reason {
	if j.registry() == "" {
		return packages.NoRegistry
	}
	id, err := e.Identity(j.registry())
	if err != nil {
		return packages.ReasonOf(err)
	}
	return j.decide(id)
}

// decide asks about an identity, and remembers the approvals that it relies on.
func (j *judge) decide(id packages.Identity) packages.Reason {
	d := j.in.Packages.Decide(id)
	switch {
	case d.Allowed && d.Reason == packages.AllowedByPolicy:
		return d.Reason
	case d.Allowed:
		if !j.locks.relied[id] && len(j.locks.relied) == maxPackages {
			return packages.TooManyMembers
		}
		j.locks.relied[id] = true
		return packages.ApprovedRecord
	case d.Reason == packages.ApprovedRecord || d.Reason == packages.AllowedByPolicy:
		return packages.Broken // says one thing and does another
	}
	return d.Reason
}

func packageKind(r packages.Reason) string {
	switch r {
	case packages.NotApproved:
		return "package-unapproved"
	case packages.DeniedByPolicy, packages.DeniedByRecord:
		return "package-denied"
	}
	return "package-foreign"
}

// lockFindings adds one finding for each package.
func (j *judge) lockFindings() {
	for _, f := range j.locks.order {
		if f.pkg.Places > 1 {
			f.change.detail += fmt.Sprintf(", at %d places", f.pkg.Places)
		}
		f.change.pkg = &f.pkg
		j.add(f.change)
	}
}
