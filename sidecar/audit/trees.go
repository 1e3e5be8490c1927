package audit

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/product"
)

// trees compares what lies in a node_modules with the archives of approved
// packages. A package's directory is all that lies in it without other packages'
// directories; it is compared whole, what did not change included.
type trees struct {
	// sums are over the files of each directory in the final tree, in the order
	// of their paths.
	sums map[string][32]byte
	// links are the changed ones in a .bin, by their directory.
	links map[string][]link
	over  bool
	bins  map[string]map[[32]byte]bool // what .bin may hold, by its directory
}

// link is an entry of a .bin directory.
type link struct {
	name string
	kind product.Type
	sum  [32]byte
}

const maxTrees = 200_000

func newTrees() *trees {
	return &trees{sums: map[string][32]byte{}, links: map[string][]link{}, bins: map[string]map[[32]byte]bool{}}
}

// innermost splits a path into the package directory that holds it and the rest.
func innermost(path string) (place, rest string) {
	parts := strings.Split(path, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i] != modules {
			continue
		}
		n := i + 2
		if i+1 < len(parts) && strings.HasPrefix(parts[i+1], "@") {
			n++
		}
		n = min(n, len(parts))
		return strings.Join(parts[:n], "/"), strings.Join(parts[n:], "/")
	}
	return "", path
}

// see takes a file of the final tree.
func (t *trees) see(n *record, changed bool) {
	if n.Type == product.TypeDir {
		return
	}
	place, rest := innermost(n.Path)
	if base(place) == ".bin" {
		if changed {
			t.links[place] = append(t.links[place], link{rest, n.Type, n.SHA256})
		}
		return
	}
	if _, known := t.sums[place]; !known && len(t.sums) == maxTrees {
		t.over = true
		return
	}
	t.sums[place] = chainFile(t.sums[place], rest, n.Type, n.SHA256)
}

// chainFile goes on over one more file: its path, type and content. Modes are
// left out, as npm leaves them out when it unpacks.
func chainFile(sum [32]byte, path string, kind product.Type, content [32]byte) [32]byte {
	return sha256.Sum256(fmt.Appendf(sum[:], "%s %x %q", kind, content, path))
}

// sumsOf are the sums that an archive unpacked at place would give: of its own
// directory, and of those of the packages that are bundled in it.
func sumsOf(place string, a *packages.Archive) map[string][32]byte {
	sums := map[string][32]byte{}
	for _, name := range slices.Sorted(maps.Keys(a.Files)) {
		at, rest := innermost(place + "/" + name)
		sums[at] = chainFile(sums[at], rest, product.TypeFile, a.Files[name])
	}
	return sums
}

// verified reports whether everything that changed below a dependency's outermost
// directory is what approved archives hold.
func (j *judge) verified(d *dependency) bool {
	if j.in.Packages == nil || j.trees.over || d.loose {
		return false
	}
	for _, place := range slices.Sorted(maps.Keys(d.places)) {
		if base(place) == ".bin" {
			continue // after the packages
		}
		sum, there := j.trees.sums[place]
		if there && !j.matches(place, sum) {
			return false
		}
	}
	return true
}

// matches looks for an approved archive that has these files for the place: the
// package's own, or one that it is bundled in.
func (j *judge) matches(place string, sum [32]byte) bool {
	for at := place; at != ""; at = outer(at) {
		for _, id := range j.locks.places[at] {
			r := j.decide(id)
			if r != packages.ApprovedRecord && r != packages.AllowedByPolicy {
				continue
			}
			a, ok := j.in.Packages.Archive(id)
			if !ok || sumsOf(at, a)[place] != sum {
				continue
			}
			j.allowBins(place, a.Bins[strings.TrimPrefix(place[len(at):], "/")])
			return true
		}
	}
	return false
}

// outer is the package directory that a package directory lies in, or "".
func outer(place string) string {
	i := strings.LastIndex(place, "/"+modules+"/")
	if i < 0 {
		return ""
	}
	at, rest := innermost(place[:i])
	if rest != "" {
		return ""
	}
	return at
}

// allowBins notes which links a package's programs have beside its directory.
func (j *judge) allowBins(place string, bins map[string]string) {
	i := strings.LastIndex(place, modules+"/") + len(modules)
	dir := place[:i] + "/.bin"
	allowed := j.trees.bins[dir]
	if allowed == nil {
		allowed = map[[32]byte]bool{}
		j.trees.bins[dir] = allowed
	}
	for name, file := range bins {
		target := sha256.Sum256([]byte("../" + place[i+1:] + "/" + file))
		allowed[chainFile([32]byte{}, name, product.TypeSymlink, target)] = true
	}
}

// verifiedBins reports whether every link that changed below is one that a
// verified package has. A link's content is its target.
func (j *judge) verifiedBins(d *dependency) bool {
	for place := range d.places {
		if base(place) != ".bin" {
			continue
		}
		for _, l := range j.trees.links[place] {
			if !j.trees.bins[place][chainFile([32]byte{}, l.name, l.kind, l.sum)] {
				return false
			}
		}
	}
	return true
}

// byIdentity sorts identities for the seal.
func byIdentity(a, b packages.Identity) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Registry, b.Registry))
}
