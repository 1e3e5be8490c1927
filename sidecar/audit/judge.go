package audit

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/proctor-project/proctor/sidecar/product"
)

// Action is what a class of changes does to the verdict. The zero value is the
// strict one.
type Action uint8

// The actions.
const (
	Fail Action = iota // a change is a finding
	List               // a change is a review
)

// Input is what Judge compares, and the operator's choices.
type Input struct {
	Baseline *product.Decoder
	Final    *product.Decoder
	// Tee takes the final tree's entries and facts as they are read; nil is
	// nobody. A product.ManifestWriter makes the manifest on the way.
	Tee product.Sink
	// Protected names paths whose every change fails; nil names none.
	Protected func(path string) bool
	// Approved answers for the content of a path, relative to the product;
	// nil approves nothing.
	Approved func(path string, sha256 [32]byte) bool
	// Covered answers like Approved, for what a finding refers to: it decides
	// nothing but whether that is named.
	Covered func(path string, sha256 [32]byte) bool
	// Packages answers for packages; nil approves none, and compares nothing
	// with an archive.
	Packages Packages
	Review   Action // what builds and tests run
	Tree     Action // dependencies, and the packages that lock files name
}

// Limits of a result. What comes after them is counted in one last finding,
// which cannot be approved.
const (
	MaxFindings = 2000
	MaxReviews  = 5000
	// MaxText bounds the texts that a product chooses in both, as JSON writes them, in bytes:
	// what names of control characters come to must still fit into a seal.
	MaxText = 5 << 20
)

var errBaseline = errors.New("baseline is not complete")

// Judge reads both streams to their ends in one pass and sorts what changed.
// Memory grows with the number of findings and of changed dependencies, not with
// the trees. An error means that a stream is not well formed: then there is no
// verdict.
func Judge(in Input) (*Result, error) {
	j := &judge{in: in, places: newClassifier(), packages: make(map[string]*dependency), locks: newLocks(), trees: newTrees(), result: &Result{}}
	base := &cursor{dec: in.Baseline, indexes: make(map[string][32]byte)}
	final := &cursor{dec: in.Final, tee: in.Tee, indexes: make(map[string][32]byte)}
	j.result.Indexes = final.indexes
	if err := merge(base, final, j.path); err != nil {
		return nil, fmt.Errorf("judge changes: %w", err)
	}
	var err error
	if j.result.Baseline, err = in.Baseline.Summary(); err != nil {
		return nil, fmt.Errorf("judge changes: baseline: %w", err)
	}
	if j.result.Final, err = in.Final.Summary(); err != nil {
		return nil, fmt.Errorf("judge changes: final tree: %w", err)
	}
	if !j.result.Baseline.Complete {
		return nil, fmt.Errorf("judge changes: %w", errBaseline)
	}
	j.loose(base.loose, final.loose)
	j.dependencies()
	j.lockFindings()
	j.result.Packages = slices.SortedFunc(maps.Keys(j.locks.relied), byIdentity)
	j.close()
	return j.result, nil
}

// judge is the state of one pass.
type judge struct {
	in       Input
	places   *classifier
	packages map[string]*dependency
	locks    *locks
	trees    *trees
	result   *Result
	lost     int64 // findings and reviews over their limits
	text     int   // bytes of the findings' and reviews' texts
	broken   bool  // a finding says why the tree is not complete
}

// change is a finding in the making.
type change struct {
	class  Class
	kind   string
	path   string
	detail string
	status Status
	before [32]byte
	after  [32]byte
	// final is true for what no approval covers: only a regular file has a
	// content that could be taken for nothing else.
	final bool
	pkg   *Package
}

// add sorts a change into findings and reviews.
func (j *judge) add(c change) {
	action := Fail
	switch c.class {
	case ClassReview:
		action = j.in.Review
	case ClassTree:
		action = j.in.Tree
	}
	text, raw := splitPath(c.path)
	j.text += written(text) + 2*len(raw) + written(c.detail)
	if c.pkg != nil {
		j.text += written(c.pkg.Name) + written(c.pkg.Version) + written(c.pkg.Integrity)
	}
	if j.text > MaxText {
		j.lost++
		return
	}
	if action == List || c.status == StatusRemoved && !c.final {
		if len(j.result.Reviews) >= MaxReviews {
			j.lost++
			return
		}
		j.result.Reviews = append(j.result.Reviews, Review{
			Class: c.class, Kind: c.kind, Path: text, PathBase64: raw, Detail: c.detail, Status: c.status,
			BaselineSHA256: hexOf(c.before), SHA256: hexOf(c.after), Package: c.pkg,
		})
		return
	}
	if len(j.result.Findings) >= MaxFindings {
		j.lost++
		return
	}
	approvable := !c.final && c.after != ([32]byte{})
	j.result.Findings = append(j.result.Findings, Finding{
		Class: c.class, Kind: c.kind, Path: text, PathBase64: raw, Detail: c.detail, Status: c.status,
		BaselineSHA256: hexOf(c.before), SHA256: hexOf(c.after), Package: c.pkg,
		Approvable: approvable, Approved: approvable && j.in.Approved != nil && j.in.Approved(c.path, c.after),
	})
}

// written is how long JSON writes a text at most: six bytes for a character that
// it escapes.
func written(s string) int {
	n := len(s)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			n += 5
		}
	}
	return n
}

// path judges one path.
func (j *judge) path(b, n *record) {
	c, changed := j.compare(b, n)
	if changed && j.in.Protected != nil && j.in.Protected(c.path) {
		p := c
		p.class, p.kind, p.final = ClassProtected, "protected", true
		j.add(p)
	}
	if n != nil {
		j.bits(c, b, n)
		j.tree(c, n.facts)
	}
	lock := isLock(c.path)
	if lock && n != nil {
		j.lock(c, b, n, changed)
	}
	pkg, dependency := packageDir(c.path)
	dependency = dependency && !product.InGit(c.path)
	if dependency && !lock && n != nil && j.in.Packages != nil {
		j.trees.see(n, changed)
	}
	if !changed {
		// Equal files can still lead to different ones, but not differ in
		// what was extracted from their own content.
		return
	}
	if dependency && (!lock || n != nil && n.Type != product.TypeFile) {
		j.dependency(pkg, b, n)
		return
	}
	j.place(c, b, n)
	j.content(c, b, n)
}

// compare counts how a path changed.
func (j *judge) compare(b, n *record) (c change, changed bool) {
	switch {
	case b == nil:
		j.result.Added++
		return change{path: n.Path, status: StatusNew, after: n.SHA256, final: n.Type != product.TypeFile}, true
	case n == nil:
		j.result.Removed++
		return change{path: b.Path, status: StatusRemoved, before: b.SHA256}, true
	case b.Entry != n.Entry:
		j.result.Changed++
		return change{path: n.Path, status: StatusChanged, before: b.SHA256, after: n.SHA256, final: n.Type != product.TypeFile}, true
	}
	return change{path: n.Path, before: b.SHA256, after: n.SHA256, final: n.Type != product.TypeFile}, false
}

// bits judges what an entry is, whatever its name.
func (j *judge) bits(c change, b, n *record) {
	var before uint32
	if b != nil && b.Type == n.Type {
		before = b.Mode
	}
	trap := func(kind, detail string) {
		t := c
		t.class, t.kind, t.detail = ClassTrap, kind, detail
		j.add(t)
	}
	if n.Type.Special() {
		if b == nil || b.Type != n.Type {
			trap("special-file", "a "+string(n.Type))
		}
		return
	}
	if n.Type == product.TypeSymlink {
		return
	}
	gained := n.Mode &^ before
	if gained&0o6000 != 0 {
		trap("setid", fmt.Sprintf("mode %04o", n.Mode))
	}
	if gained&0o002 != 0 && n.Mode&0o1000 == 0 {
		trap("world-writable", fmt.Sprintf("mode %04o", n.Mode))
	}
}

// tree judges the facts about the reading of an entry.
func (j *judge) tree(c change, facts []product.Fact) {
	for _, f := range facts {
		switch f.Kind {
		case product.FactCapability:
			t := c
			t.class, t.kind = ClassTrap, "file-capability"
			j.add(t)
		default:
			j.unread(f)
		}
	}
}

// unread reports what could not be looked at.
func (j *judge) unread(f product.Fact) {
	if !f.Kind.Breaks() {
		return
	}
	j.broken = true
	c := change{class: ClassUnreadable, kind: string(f.Kind), path: f.Path, detail: f.Detail, final: true}
	if f.Kind == product.FactLimit {
		c.class = ClassLimit
	}
	j.add(c)
}

// close adds the findings about the result itself.
func (j *judge) close() {
	if !j.result.Final.Complete && !j.broken {
		j.result.Findings = append(j.result.Findings, Finding{Class: ClassUnreadable, Kind: "incomplete", Detail: "the tree was not read in full"})
	}
	if j.lost > 0 {
		j.result.Findings = append(j.result.Findings, Finding{
			Class: ClassLimit, Kind: "more-findings", Detail: fmt.Sprintf("%d more changes are not listed", j.lost),
		})
	}
}
