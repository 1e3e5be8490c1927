package packages

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
)

// Limits of a lock file.
const (
	MaxLock        = 32 << 20 // bytes
	MaxLockEntries = 20_000
	maxLockDepth   = 256 // nested dependencies of the old format
)

// LockEntry is one package that a lock file names. Its fields are as they stand
// in the file; Identity judges them.
type LockEntry struct {
	// Place is where it is installed, "node_modules/a/node_modules/b", or
	// where the old format has it, "a > b".
	Place     string
	Name      string // the package's own, also where it is installed under another
	Version   string
	Resolved  string
	Integrity string
	Alias     bool // installed under another name
	Link      bool // a link to a directory
	Local     bool // a directory of the product itself
	Bundled   bool // inside its parent's archive
	// Bins are the programs that npm links for it, by name: files of the package.
	// npm believes this file about them, and not the archive.
	Bins map[string]string
}

// lockDocument is what is read of a package-lock.json.
type lockDocument struct {
	Version      int                        `json:"lockfileVersion"`
	Packages     map[string]json.RawMessage `json:"packages,omitempty"`
	Dependencies map[string]json.RawMessage `json:"dependencies,omitempty"`
}

// lockPackage is one member of "packages".
type lockPackage struct {
	Name      string          `json:"name,omitempty"`
	Version   string          `json:"version,omitempty"`
	Resolved  string          `json:"resolved,omitempty"`
	Integrity string          `json:"integrity,omitempty"`
	Link      bool            `json:"link,omitempty"`
	InBundle  bool            `json:"inBundle,omitempty"`
	Bin       json.RawMessage `json:"bin,omitempty"`
	// What decides whether npm believes that.
	Dependencies map[string]json.RawMessage `json:"dependencies,omitempty"`
	Optional     map[string]json.RawMessage `json:"optionalDependencies,omitempty"`
	Peers        map[string]json.RawMessage `json:"peerDependencies,omitempty"`
	Bundle       json.RawMessage            `json:"bundleDependencies,omitempty"`
}

// lockDependency is one member of the old "dependencies".
type lockDependency struct {
	Version      string                     `json:"version,omitempty"`
	Resolved     string                     `json:"resolved,omitempty"`
	Integrity    string                     `json:"integrity,omitempty"`
	Bundled      bool                       `json:"bundled,omitempty"`
	Dependencies map[string]json.RawMessage `json:"dependencies,omitempty"`
}

// ParseLock reads what a package-lock.json, npm-shrinkwrap.json or the hidden
// lock file in node_modules names, in no particular order: the "packages" of
// versions 2 and 3, and what older npm reads instead, the "dependencies" of
// versions 1 and 2. It judges no entry.
func ParseLock(data []byte) ([]LockEntry, error) {
	var doc lockDocument
	if err := readLock(data, &doc); err != nil {
		return nil, err
	}
	if doc.Version < 1 || doc.Version > 3 {
		return nil, refuse(Malformed, "lock file", "its version is none of 1, 2 and 3")
	}
	l := &lockReader{}
	all := map[string]lockPackage{}
	for place, raw := range doc.Packages {
		var p lockPackage
		if err := readLock(raw, &p); err != nil {
			return nil, err
		}
		all[place] = p
	}
	l.bundled = bundles(all)
	for place, p := range all {
		if err := l.pkg(place, p); err != nil {
			return nil, err
		}
	}
	if err := l.old("", doc.Dependencies, 0); err != nil {
		return nil, err
	}
	return l.entries, nil
}

func readLock(data []byte, v any) error {
	if err := readForeign(data, v, MaxLock); err != nil {
		return &Error{Reason: jsonReason(err), Subject: "lock file", Err: err}
	}
	return nil
}

type lockReader struct {
	entries []LockEntry
	bundled map[string]string
}

func (l *lockReader) add(e LockEntry) error {
	if len(l.entries) == MaxLockEntries {
		return refuse(TooManyMembers, "lock file", "")
	}
	l.entries = append(l.entries, e)
	return nil
}

// pkg reads one member of "packages"; the product itself is none.
func (l *lockReader) pkg(place string, p lockPackage) error {
	if place == "" {
		return nil
	}
	_, bundled := l.bundled[place]
	e := LockEntry{
		Place: place, Version: p.Version, Resolved: p.Resolved, Integrity: p.Integrity, Link: p.Link, Bundled: bundled,
	}
	var err error
	if e.Bins, err = lockBins(place, p); err != nil {
		return err
	}
	installed, ok := installedName(place)
	e.Name, e.Local = installed, !ok
	if p.Name != "" {
		e.Name, e.Alias = p.Name, ok && p.Name != installed
	}
	return l.add(e)
}

// lockBins reads which programs an entry has. One text is a program with the
// package's own name.
func lockBins(place string, p lockPackage) (map[string]string, error) {
	var one string
	var many map[string]string
	switch {
	case len(p.Bin) == 0:
		return nil, nil
	case json.Unmarshal(p.Bin, &one) == nil:
		name, _ := installedName(place)
		many = map[string]string{cmp.Or(p.Name, name): one}
	case json.Unmarshal(p.Bin, &many) != nil:
		return nil, refuse(Malformed, "lock file", "the programs of "+place)
	}
	bins := make(map[string]string, len(many))
	for name, file := range many {
		bins[path.Base(name)] = strings.TrimPrefix(path.Clean("/"+file), "/")
	}
	return bins, nil
}

// old reads the members of "dependencies", and theirs.
func (l *lockReader) old(parent string, members map[string]json.RawMessage, depth int) error {
	if depth == maxLockDepth {
		return refuse(Malformed, "lock file", "its dependencies are nested too deep")
	}
	for name, raw := range members {
		var d lockDependency
		if err := readLock(raw, &d); err != nil {
			return err
		}
		e := LockEntry{Place: name, Name: name, Version: d.Version, Resolved: d.Resolved, Integrity: d.Integrity}
		if parent != "" {
			e.Place = parent + " > " + name
		}
		_, bundled := l.bundled[e.Installed()]
		e.Bundled = d.Bundled && bundled
		if alias, ok := strings.CutPrefix(d.Version, "npm:"); ok {
			e.Name, e.Version, _ = cutSpec(alias)
			e.Alias = true
		}
		if err := l.add(e); err != nil {
			return err
		}
		if err := l.old(e.Place, d.Dependencies, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// installedName is the name behind the last node_modules of a place.
func installedName(place string) (string, bool) {
	const dir = "node_modules/"
	i := strings.LastIndex(place, dir)
	if i < 0 || i > 0 && place[i-1] != '/' {
		return place, false
	}
	return place[i+len(dir):], true
}

// Parent is the place of the package that holds the entry, and whether there is
// one.
func (e LockEntry) Parent() (string, bool) { return above(e.Installed()) }

// Installed is the directory of the entry, also where the old format names it.
func (e LockEntry) Installed() string {
	if _, modern := installedName(e.Place); modern || e.Local {
		return e.Place
	}
	return "node_modules/" + strings.ReplaceAll(e.Place, " > ", "/node_modules/")
}

// Covered reports whether the entry names bytes inside the archive of a package
// above and no others. Where that archive does not hold it, npm fetches the
// version after all, whatever its bytes are.
func (e LockEntry) Covered() bool {
	_, nested := e.Parent()
	return e.Bundled && nested && e.Resolved == "" && e.Integrity == "" && !e.Link && !e.Local
}

// Identity is the package of the registry that npm installs for the entry. An
// entry that leads anywhere else is refused. Without an address, npm fetches
// from the registry.
func (e LockEntry) Identity(registry string) (Identity, error) {
	subject := e.Place
	switch {
	case e.Link:
		return Identity{}, refuse(NotRegistry, subject, "a link")
	case e.Local:
		return Identity{}, refuse(NotRegistry, subject, "a directory of the product")
	case e.Resolved != "" && !under(registry, e.Resolved):
		return Identity{}, refuse(NotRegistry, subject, e.Resolved)
	case e.Integrity == "":
		// What the old format has in a version's place may be an address.
		if strings.ContainsAny(e.Version, ":/") {
			return Identity{}, refuse(NotRegistry, subject, e.Version)
		}
		return Identity{}, refuse(NoIntegrity, subject, "")
	}
	id := Identity{Registry: registry, Name: e.Name, Version: e.Version, Integrity: e.Integrity}
	return id, id.Check()
}

// under reports whether the address is a plain one below the registry's origin.
func under(registry, address string) bool {
	rest, ok := strings.CutPrefix(address, registry+"/")
	if !ok || rest == "" || strings.ContainsAny(rest, "?#\\ ") {
		return false
	}
	for segment := range strings.SplitSeq(strings.ToLower(rest), "/") {
		if strings.Trim(strings.ReplaceAll(segment, "%2e", "."), ".") == "" {
			return false // empty, "." or ".."
		}
	}
	return true
}

// LockIdentities are the packages that a lock file of version 2 or 3 installs,
// each once, by name and version. What is not a package of the registry, or has
// another name than it is installed under, refuses the whole file; every such
// entry is named. What is bundled in another package's archive is part of that.
func LockIdentities(registry string, data []byte) ([]Identity, error) {
	entries, err := ParseLock(data)
	if err != nil {
		return nil, err
	}
	modern := false
	byKey := map[[2]string]Identity{}
	var refused []error
	for _, e := range entries {
		modern = modern || strings.Contains(e.Place, "node_modules/")
		if e.Covered() {
			continue
		}
		id, err := e.Identity(registry)
		if err == nil && e.Alias {
			err = refuse(NotRegistry, e.Place, "an alias of "+id.Spec())
		}
		if have, twice := byKey[[2]string{id.Name, id.Version}]; err == nil && twice && have != id {
			err = refuse(OtherIntegrity, e.Place, "two integrities of "+id.Spec())
		}
		if err != nil {
			refused = append(refused, err)
			continue
		}
		byKey[[2]string{id.Name, id.Version}] = id
	}
	if len(refused) > 0 {
		slices.SortFunc(refused, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return nil, errors.Join(refused[:min(len(refused), maxNamed)]...)
	}
	if len(entries) > 0 && !modern {
		return nil, refuse(Malformed, "lock file", "of version 1; npm install --package-lock-only writes version 3")
	}
	ids := slices.Collect(maps.Values(byKey))
	slices.SortFunc(ids, func(a, b Identity) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
	return ids, nil
}

// maxNamed bounds the entries that one refusal names.
const maxNamed = 200
