package audit

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/sidecar/product"
)

// place judges a change by where it is.
func (j *judge) place(c change, b, n *record) {
	isDir := func(r *record) bool { return r == nil || r.Type == product.TypeDir }
	if isDir(b) && isDir(n) {
		return
	}
	if n != nil && n.Type != product.TypeDir && j.gitShape(c, n) {
		return
	}
	class, kind := j.places.place(c.path)
	if class == "" {
		return
	}
	if b != nil && n != nil && b.SHA256 == n.SHA256 && b.Type == n.Type {
		c.detail = fmt.Sprintf("mode %04o, was %04o", n.Mode, b.Mode)
		if class != ClassTrap {
			return // who runs or reads it names the program
		}
	}
	c.class, c.kind = class, kind
	j.add(c)
}

// gitShape judges links and files where git has directories, and links in the
// place of its own files.
func (j *judge) gitShape(c change, n *record) bool {
	name := strings.ToLower(base(c.path))
	switch {
	case name == ".git":
		c.detail = "a " + string(n.Type) + " in a git directory's place"
	case product.InGit(strings.ToLower(c.path)) && n.Type == product.TypeSymlink:
		c.detail = "a link inside a git directory"
	case n.Type == product.TypeSymlink && trapDir(name):
		c.detail = "a link in the place of a directory that tools read"
	default:
		return false
	}
	c.class, c.kind = ClassTrap, "git-link"
	if trapDir(name) {
		c.kind = "link"
	}
	j.add(c)
	return true
}

// content judges what the extractor saw in a changed file.
func (j *judge) content(c change, b, n *record) {
	before := make(map[factKey][32]byte)
	if b != nil {
		for _, f := range b.facts {
			before[keyOf(f)] = f.SHA256
		}
	}
	same := func(f product.Fact) bool {
		sum, ok := before[keyOf(f)]
		return ok && sum == f.SHA256 && f.Kind != product.FactUnparsed
	}
	seen := make(map[factKey]bool)
	if n != nil {
		for _, f := range n.facts {
			seen[keyOf(f)] = true
			if class, kind := weigh(f); class != "" && !same(f) {
				t := c
				t.class, t.kind, t.detail = class, kind, describe(f)
				if _, had := before[keyOf(f)]; !had {
					t.status = StatusNew
				}
				j.add(t)
			}
		}
	}
	if b == nil {
		return
	}
	for _, f := range b.facts {
		if class, kind := weigh(f); class != "" && !seen[keyOf(f)] && f.Kind != product.FactUnparsed {
			t := c
			t.class, t.kind, t.detail, t.status = class, kind, describe(f), StatusRemoved
			j.add(t)
		}
	}
}

// factKey is what makes two facts about the same thing. Git variables may have
// several values under one name, so there the value counts too.
type factKey struct {
	kind product.FactKind
	name string
	sum  [32]byte
}

func keyOf(f product.Fact) factKey {
	k := factKey{kind: f.Kind, name: f.Name}
	if f.Kind == product.FactGitConfig {
		k.sum = f.SHA256
	}
	return k
}

func describe(f product.Fact) string {
	switch {
	case f.Detail == "":
		return f.Name
	case f.Name == "":
		return f.Detail
	}
	return product.Text(f.Name + ": " + f.Detail)
}

// weigh says what a fact about a file's content means when it is new.
func weigh(f product.Fact) (Class, string) {
	switch f.Kind {
	case product.FactScript:
		if lifecycle(strings.ToLower(f.Name)) {
			return ClassTrap, "install-script"
		}
		return ClassReview, "script"
	case product.FactNeeds:
		return ClassReview, "dependencies"
	case product.FactTask:
		return ClassTrap, "editor"
	case product.FactGitConfig:
		if redirectName(f.Name) && !strings.Contains(f.Detail, "::") && !strings.HasPrefix(f.Detail, "-") {
			return ClassReview, "git-config"
		}
		return ClassTrap, "git-config"
	case product.FactUnparsed:
		if strings.EqualFold(base(f.Path), "package.json") {
			return ClassReview, "unparsed"
		}
		return ClassTrap, "unparsed"
	}
	return "", "" // hooks and links are judged by their place
}

// redirectName reports whether a git variable only redirects (setting.runs).
func redirectName(name string) bool {
	section, rest, _ := strings.Cut(name, ".")
	key := rest[strings.LastIndexByte(rest, '.')+1:]
	switch section {
	case "remote", "submodule":
		return key == "url" || key == "pushurl"
	case "url", "http", "https":
		return true
	}
	return false
}

// loose judges the facts about no single entry: what links, includes and
// core.hooksPath lead to, hard links, and what was not read.
func (j *judge) loose(before, after []product.Fact) {
	type key struct {
		path string
		factKey
	}
	had := make(map[key][32]byte)
	for _, f := range before {
		had[key{f.Path, keyOf(f)}] = f.SHA256
	}
	said := make(map[[2]string]bool)
	for _, f := range after {
		if f.Kind == product.FactRefers {
			j.refers(f)
			continue
		}
		c := change{path: f.Path, detail: describe(f), status: StatusNew, after: f.SHA256}
		sum, known := had[key{f.Path, keyOf(f)}]
		if known {
			if sum == f.SHA256 && f.Kind != product.FactHardLink && !f.Kind.Breaks() {
				continue
			}
			c.status, c.before = StatusChanged, sum
		}
		switch f.Kind {
		case product.FactGitProgram:
			c.class, c.kind = ClassTrap, "git-hook"
		case product.FactGitInclude:
			c.class, c.kind = ClassTrap, "git-link"
		case product.FactTarget:
			_, kind := j.places.place(f.Name)
			c.class, c.kind = ClassTrap, kind
		case product.FactHardLink:
			c.class, c.kind, c.final = ClassTrap, "hard-link", true
		case product.FactScript, product.FactNeeds, product.FactUnparsed, product.FactGitConfig, product.FactTask:
			c.class, c.kind = weigh(f)
			c.after = [32]byte{} // of one value, not of the file
		default:
			j.unread(f)
			continue
		}
		if once := [2]string{c.kind, c.path}; c.after == ([32]byte{}) || !said[once] {
			said[once] = true
			j.add(c)
		}
	}
}

// refers names what the content of a finding runs, unless that is approved, too.
func (j *judge) refers(f product.Fact) {
	if j.in.Covered != nil && j.in.Covered(f.Name, f.SHA256) {
		return
	}
	for i := range j.result.Findings {
		if t := &j.result.Findings[i]; t.Class == ClassTrap && t.RawPath() == f.Path {
			if j.text += written(f.Name); j.text > MaxText {
				j.lost++
				return
			}
			t.References = append(t.References, f.Name)
			return
		}
	}
}

// dependency is one package directory with changes in it.
type dependency struct {
	changed         int
	places          map[string]bool // package directories with changes, by their innermost
	loose           bool            // something of another kind than npm's
	before, after   bool
	beforeH, afterH [32]byte
}

// maxDependencies bounds the table of changed packages.
const maxDependencies = 20_000

// dependency counts a change below the package directory pkg. Its digest is over
// the changed paths and what became of them.
func (j *judge) dependency(pkg string, b, n *record) {
	d := j.packages[pkg]
	if d == nil {
		if len(j.packages) == maxDependencies {
			j.lost++
			return
		}
		d = &dependency{places: map[string]bool{}}
		j.packages[pkg] = d
	}
	d.changed++
	path := pathOf(b, n)
	if place, _ := innermost(path); place != "" {
		d.places[place] = true
	} else {
		d.loose = true
	}
	if b != nil {
		d.before = true
		d.beforeH = chain(d.beforeH, &b.Entry)
	}
	if n != nil {
		d.after = true
		d.afterH = chain(d.afterH, &n.Entry)
	}
}

func chain(sum [32]byte, e *product.Entry) [32]byte {
	return sha256.Sum256(fmt.Appendf(sum[:], "%s %o %d %x %q", e.Type, e.Mode, e.Size, e.SHA256, e.Path))
}

func pathOf(b, n *record) string {
	if n != nil {
		return n.Path
	}
	return b.Path
}

// dependencies adds one finding for each package directory that is not what
// approved archives hold.
func (j *judge) dependencies() {
	all := slices.Sorted(maps.Keys(j.packages))
	verified := map[string]bool{}
	for _, pkg := range all {
		verified[pkg] = j.verified(j.packages[pkg])
	}
	for _, pkg := range all {
		d := j.packages[pkg]
		if verified[pkg] && j.verifiedBins(d) {
			continue
		}
		c := change{
			class: ClassTree, kind: "dependency", path: pkg, detail: fmt.Sprintf("%d paths", d.changed),
			status: StatusChanged, before: d.beforeH, after: d.afterH,
		}
		switch {
		case !d.before:
			c.status = StatusNew
		case !d.after:
			c.status = StatusRemoved
		}
		j.add(c)
	}
}
