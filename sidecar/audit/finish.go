package audit

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/sidecar/product"
	"golang.org/x/sys/unix"
)

// leadKind says what a lead leads to.
type leadKind uint8

const (
	leadInclude leadKind = iota // a git configuration that another one includes
	leadHooks                   // a directory of hooks
	leadGitDir                  // a git directory
	leadLink                    // a link in a place where programs are named
)

// lead is a path of the tree that some file makes worth reading. from is the
// file that says so, target is relative to the root and may hold ".." and links.
type lead struct {
	what   leadKind
	from   string
	target string
}

// Finish implements product.Extractor: it follows the leads, and the leads that
// it finds there.
func (x *Extractor) Finish(t *product.Tree) []product.Fact {
	f := finisher{x: x, t: t, seen: make(map[lead]bool)}
	for done := 0; ; done++ {
		next, ok := x.take(f.seen)
		if !ok {
			break
		}
		if done == maxPending || len(f.facts) > maxPending {
			x.over = true
			break
		}
		f.seen[lead{what: next.what, target: next.target}] = true
		f.follow(next)
	}
	for _, r := range x.refs {
		if _, e, err := t.ReadFile(r.target, maxConfig); err == nil {
			f.facts = append(f.facts, product.Fact{Path: r.from, Kind: product.FactRefers, Name: product.Text(e.Path), SHA256: e.SHA256})
		}
	}
	if x.over {
		f.limit("", "configuration that names other files")
	}
	slices.SortFunc(f.facts, func(a, b product.Fact) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Detail, b.Detail), cmp.Compare(string(a.SHA256[:]), string(b.SHA256[:])))
	})
	return slices.Compact(f.facts)
}

// take removes the smallest lead, so that the order of the facts does not depend
// on that of the workers.
func (x *Extractor) take(seen map[lead]bool) (lead, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending = slices.DeleteFunc(x.pending, func(l lead) bool {
		return l.target == "" || seen[lead{what: l.what, target: l.target}]
	})
	if len(x.pending) == 0 {
		return lead{}, false
	}
	least := 0
	for i, l := range x.pending {
		if o := x.pending[least]; cmp.Or(cmp.Compare(l.target, o.target), cmp.Compare(l.what, o.what), cmp.Compare(l.from, o.from)) < 0 {
			least = i
		}
	}
	l := x.pending[least]
	x.pending = slices.Delete(x.pending, least, least+1)
	return l, true
}

// finisher is the state of one Finish.
type finisher struct {
	x     *Extractor
	t     *product.Tree
	seen  map[lead]bool
	facts []product.Fact
	steps int // paths looked at behind links
}

// maxSteps bounds them: links to directories of links multiply.
const maxSteps = 10_000

func (f *finisher) limit(path, what string) {
	f.facts = append(f.facts, product.Fact{Path: path, Kind: product.FactLimit, Detail: product.Text("over the limit: " + what)})
}

func (f *finisher) follow(l lead) {
	switch l.what {
	case leadInclude:
		f.config(l, "include")
	case leadHooks:
		f.hooks(l)
	case leadGitDir:
		f.gitDir(l)
	case leadLink:
		f.link(l)
	}
}

// read returns a file's content, when there is one inside the tree. A file that
// is there and cannot be read in full is a limit.
func (f *finisher) read(path string) ([]byte, product.Entry, bool) {
	content, e, err := f.t.ReadFile(path, maxConfig)
	if err != nil {
		if e.Type == product.TypeFile {
			f.limit(e.Path, "size of a file that git reads")
		}
		return nil, e, false
	}
	return content, e, true
}

// config reports a configuration file as a whole and follows what it names.
func (f *finisher) config(l lead, name string) {
	content, e, ok := f.read(l.target)
	if !ok {
		return
	}
	f.facts = append(f.facts, product.Fact{Path: e.Path, Kind: product.FactGitInclude, Name: name, Detail: product.Text("read by " + l.from), SHA256: e.SHA256})
	if settings, err := parseGitConfig(string(content)); err == nil {
		// Relative names count from the file's real place and from where it
		// was named: git takes the second, some tools the first.
		f.x.follow(e.Path, settings)
		f.x.follow(l.target, settings)
	}
}

// hooks reports every file in a directory of hooks.
func (f *finisher) hooks(l lead) {
	names, real, err := f.t.ReadDir(l.target, 2000)
	if err != nil {
		if !absent(err) {
			f.limit("", "a directory of hooks")
		}
		return
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sample") {
			continue
		}
		path := name
		if real != "" {
			path = real + "/" + name
		}
		f.program(path, l.from)
	}
}

// program reports the file at path and, if that is a link, what it leads to.
func (f *finisher) program(path string, from string) {
	fact := product.Fact{Path: path, Kind: product.FactGitProgram, Name: product.Text(path), Detail: product.Text("named by " + from)}
	target, linkErr := f.t.ReadLink(path)
	_, e, ok := f.read(path)
	if linkErr == nil && !f.x.isHook(path) { // its place does not tell what it is
		link := fact
		link.SHA256 = sha256.Sum256([]byte(target))
		f.facts = append(f.facts, link)
	}
	if ok {
		fact.Path, fact.SHA256 = e.Path, e.SHA256
		f.facts = append(f.facts, fact)
	}
}

// gitDir reports what runs programs in a git directory that is not named .git.
func (f *finisher) gitDir(l lead) {
	names, real, err := f.t.ReadDir(l.target, 2000)
	if err != nil || product.InGit(real+"/") {
		return // absent, or read by its own name
	}
	for _, name := range names {
		path := join(real, name)
		switch name {
		case "config", "config.worktree":
			f.config(lead{from: l.from, target: path}, name)
		case "hooks":
			f.x.add(lead{what: leadHooks, from: l.from, target: path})
		case "commondir":
			content, e, ok := f.read(path)
			if !ok {
				continue
			}
			to := strings.TrimRight(string(content), "\r\n")
			f.facts = append(f.facts, product.Fact{Path: e.Path, Kind: product.FactGitInclude, Name: name, Detail: product.Text(to), SHA256: e.SHA256})
			f.x.add(lead{what: leadGitDir, from: e.Path, target: relative(real, to)})
		}
	}
}

// link follows a link that stands in the place of something that runs programs.
func (f *finisher) link(l lead) {
	name := strings.ToLower(base(l.target))
	switch {
	case name == ".git":
		f.gitDir(l)
	case name == "hooks":
		f.hooks(l)
	case name == "config" || name == "config.worktree":
		f.config(l, name)
	case name == "package.json":
		if content, e, ok := f.read(l.target); ok {
			f.facts = append(f.facts, packageJSON(e.Path, content, e.Size == int64(len(content)))...)
		}
	case f.x.isHook(l.target):
		f.program(l.target, l.from)
	default:
		f.targets(l.target, l.target, 4)
	}
}

// targets reports the files behind a link that stand in the places of traps.
// virtual is the path through the link.
func (f *finisher) targets(virtual, path string, depth int) {
	if f.steps++; f.steps > maxSteps {
		f.x.over = true
		return
	}
	names, real, err := f.t.ReadDir(path, 2000)
	if err == nil {
		if depth == 0 {
			f.limit(real, "depth of directories behind a link")
			return
		}
		for _, name := range names {
			f.targets(join(virtual, name), join(real, name), depth-1)
		}
		return
	}
	if class, _ := f.x.places.place(virtual); class != ClassTrap || len(f.facts) > maxPending {
		return
	}
	if _, e, ok := f.read(path); ok {
		f.facts = append(f.facts, product.Fact{Path: e.Path, Kind: product.FactTarget, Name: product.Text(virtual), SHA256: e.SHA256})
	}
}

func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, product.ErrOutside) || errors.Is(err, product.ErrNotFile)
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
