package packages

import (
	"encoding/json"
	"slices"
	"strings"
)

// bundles says which entries of "packages" npm takes from another package's
// archive, with the place of that package. That a lock file says so of an entry
// is not enough for npm: it fetches, without any integrity, what the one above
// does not depend on. This is npm's own rule (arborist: assignBundles, getBundler):
// an entry is bundled by the package right above that names it, or with that one,
// or because what is bundled at the same level needs it.
func bundles(all map[string]lockPackage) map[string]string {
	b := bundling{all: all, by: map[string]string{}, below: map[string][]string{}}
	for place, p := range all {
		if !p.InBundle {
			continue
		}
		parent, ok := above(place)
		if !ok {
			continue
		}
		b.below[parent] = append(b.below[parent], place)
		name, _ := installedName(place)
		if pp, there := all[parent]; there && !pp.InBundle && pp.names(name) {
			b.mark(place, parent)
		}
	}
	for len(b.queue) > 0 {
		place := b.queue[0]
		b.queue = b.queue[1:]
		b.spread(place)
	}
	return b.by
}

type bundling struct {
	all   map[string]lockPackage
	by    map[string]string // bundled place: the bundler's
	below map[string][]string
	queue []string
}

func (b *bundling) mark(place, by string) {
	if _, known := b.by[place]; !known {
		b.by[place] = by
		b.queue = append(b.queue, place)
	}
}

// spread goes on from one that is bundled.
func (b *bundling) spread(place string) {
	for _, child := range b.below[place] {
		b.mark(child, b.by[place])
	}
	for name := range b.all[place].needs() {
		target, ok := b.resolve(place, name)
		if !ok || !b.all[target].InBundle {
			continue
		}
		if parent, nested := above(target); nested && parent == b.by[place] {
			b.mark(target, parent)
		}
	}
}

// resolve is where a package finds a dependency: in its own node_modules, or in
// the nearest one above.
func (b *bundling) resolve(from, name string) (string, bool) {
	for at, nested := from, true; nested; at, nested = above(at) {
		if target := at + "/node_modules/" + name; has(b.all, target) {
			return target, true
		}
	}
	target := "node_modules/" + name
	return target, has(b.all, target)
}

func has(all map[string]lockPackage, place string) bool {
	_, ok := all[place]
	return ok
}

// above is the place of what holds the node_modules that a place is in.
func above(place string) (string, bool) {
	i := strings.LastIndex(place, "/node_modules/")
	if i < 0 {
		return "", false
	}
	return place[:i], true
}

func (p lockPackage) needs() map[string]bool {
	all := map[string]bool{}
	for _, group := range []map[string]json.RawMessage{p.Dependencies, p.Optional, p.Peers} {
		for name := range group {
			all[name] = true
		}
	}
	return all
}

// names reports whether the package depends on the name, or says that it bundles it.
func (p lockPackage) names(name string) bool {
	var listed []string
	if json.Unmarshal(p.Bundle, &listed) != nil {
		listed = nil
	}
	return p.needs()[name] || slices.Contains(listed, name)
}
