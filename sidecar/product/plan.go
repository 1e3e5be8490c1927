package product

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ApplyInput is what an apply needs. The manifests are bound by their digests,
// which the caller has from the session and from the verified seal; the zero
// digest matches nothing.
type ApplyInput struct {
	Product *os.File // the original's directory
	Stage   *os.File // the sealed copy's

	Baseline, Sealed             io.Reader
	BaselineSHA256, SealedSHA256 [32]byte

	// IndexDigest makes git indexes equal that differ in stat fields only: two
	// with the same digest are. nil compares them by their bytes.
	IndexDigest func(index []byte) ([32]byte, error)
	// BaselineIndex has the IndexDigest of the baseline's indexes by path, from
	// the FactGitIndex facts of its stream.
	BaselineIndex map[string][32]byte
}

// Conflict is one path that stands in the way of an apply.
type Conflict struct {
	Path   string
	Reason string
}

// ConflictError lists every conflict, up to 1000, and counts all.
type ConflictError struct {
	Conflicts []Conflict
	Total     int
}

func (e *ConflictError) Error() string {
	first := e.Conflicts[0]
	if e.Total == 1 {
		return fmt.Sprintf("%q: %s", first.Path, first.Reason)
	}
	return fmt.Sprintf("%q: %s, and %d more conflicts", first.Path, first.Reason, e.Total-1)
}

const maxConflicts = 1000

// ErrDigest is the error of a manifest that is not the one that was sealed.
var ErrDigest = errors.New("manifest has another digest")

// Plan is a checked apply. It is good until somebody changes the product.
type Plan struct {
	in      ApplyInput
	actions []action
	// settled were replaced by an earlier run, which may have been stopped
	// before it removed what it replaced.
	settled []string
}

// Change is one path that an apply writes or removes.
type Change struct {
	Path    string
	Type    Type // of what is written; of what is removed
	Removed bool
}

// Changes lists what Apply will write or remove, in the order of the paths.
// Paths that are already as sealed are not in it.
func (p *Plan) Changes() []Change {
	var list []Change
	for _, a := range p.actions {
		if a.after != nil {
			list = append(list, Change{Path: a.path, Type: a.after.Type})
		} else {
			list = append(list, Change{Path: a.path, Type: a.before.Type, Removed: true})
		}
	}
	return list
}

// action is one changed path. after is nil for a removal, before for an addition.
type action struct {
	path          string
	before, after *Entry
	now           state // what the product has there
	early         bool  // removed before anything is written: its directory becomes a file
}

// state is what was found at a path of the product.
type state struct {
	there bool
	st    unix.Stat_t
}

// PlanApply compares the product and the stage with both manifests and writes
// nothing. Of the paths that differ between baseline and sealed, each has to be
// in the product as it is in one of them, and in the stage as it is in the
// sealed one; everything else of the product may have changed meanwhile. The
// error is a *ConflictError when that is not so.
func PlanApply(ctx context.Context, in ApplyInput) (*Plan, error) {
	p := &planner{
		ctx: ctx, plan: &Plan{in: in}, conflicts: &ConflictError{},
		product: newDirs(int(in.Product.Fd())), stage: newDirs(int(in.Stage.Fd())),
		buf: make([]byte, readBuffer), becomesDir: make(map[string]bool), leavesDir: make(map[string]bool), removed: make(map[string]bool),
	}
	defer p.product.close()
	defer p.stage.close()
	if err := p.run(); err != nil {
		return nil, fmt.Errorf("plan apply: %w", err)
	}
	return p.plan, nil
}

type planner struct {
	ctx       context.Context
	plan      *Plan
	conflicts *ConflictError
	product   *dirs
	stage     *dirs
	buf       []byte
	// Changed paths that are directories after or before, and no others.
	becomesDir, leavesDir map[string]bool
	removed               map[string]bool
}

func (p *planner) run() error {
	base, sealed := NewManifestReader(p.plan.in.Baseline), NewManifestReader(p.plan.in.Sealed)
	if err := mergeManifests(base, sealed, p.path); err != nil {
		return err
	}
	if base.Digest() != p.plan.in.BaselineSHA256 {
		return fmt.Errorf("baseline: %w", ErrDigest)
	}
	if sealed.Digest() != p.plan.in.SealedSHA256 {
		return fmt.Errorf("sealed: %w", ErrDigest)
	}
	p.checkReplacedDirs()
	if p.conflicts.Total > 0 {
		return p.conflicts
	}
	return nil
}

func (p *planner) conflict(path, reason string) {
	if p.conflicts.Total++; len(p.conflicts.Conflicts) < maxConflicts {
		p.conflicts.Conflicts = append(p.conflicts.Conflicts, Conflict{Path: path, Reason: reason})
	}
}

// path plans one path.
func (p *planner) path(b, s *Entry) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if b != nil && s != nil && *b == *s {
		return nil
	}
	a := action{before: b, after: s}
	if a.path = entryPath(b, s); a.path == "" {
		return nil
	}
	p.note(&a)
	if s != nil && !p.checkStage(s) {
		return nil
	}
	now, reason := p.look(a.path)
	if reason != "" {
		p.conflict(a.path, reason)
		return nil
	}
	a.now = now
	done, reason := p.compare(&a)
	if reason != "" {
		p.conflict(a.path, reason)
		return nil
	}
	switch {
	case !done:
		p.plan.actions = append(p.plan.actions, a)
	case a.before != nil && a.after != nil:
		p.plan.settled = append(p.plan.settled, a.path)
	}
	return nil
}

func entryPath(b, s *Entry) string {
	if b != nil {
		return b.Path
	}
	return s.Path
}

// note remembers changes of type, which decide how paths below are looked at.
func (p *planner) note(a *action) {
	wasDir := a.before != nil && a.before.Type == TypeDir
	isDir := a.after != nil && a.after.Type == TypeDir
	switch {
	case isDir && !wasDir:
		p.becomesDir[a.path] = true
	case wasDir && !isDir && a.after != nil:
		p.leavesDir[a.path] = true
	}
	if a.after == nil {
		p.removed[a.path] = true
		a.early = p.anyAbove(p.leavesDir, a.path)
	}
}

// anyAbove reports whether a directory above path is in set.
func (p *planner) anyAbove(set map[string]bool, path string) bool {
	if len(set) == 0 {
		return false
	}
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		if set[path[:i]] {
			return true
		}
	}
	return false
}

// checkStage reports whether the stage still has what was sealed.
func (p *planner) checkStage(s *Entry) bool {
	switch {
	case s.Type.Special():
		p.conflict(s.Path, "a "+string(s.Type)+" cannot be applied")
		return false
	case s.Type == TypeFile && s.SHA256 == ([32]byte{}):
		p.conflict(s.Path, "its content was never read")
		return false
	}
	got, _, err := p.entryAt(p.stage, s.Path)
	if err != nil {
		p.conflict(s.Path, "the stage cannot be read: "+err.Error())
		return false
	}
	if got == nil || *got != *s {
		p.conflict(s.Path, "the stage has changed since it was sealed")
		return false
	}
	return true
}

// look finds out what the product has at path.
func (p *planner) look(path string) (state, string) {
	fd, name, err := p.product.parent(path)
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT):
		return state{}, ""
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		if p.anyAbove(p.becomesDir, path) || p.anyAbove(p.leavesDir, path) {
			return state{}, "" // what stands there is judged by itself
		}
		return state{}, "its directory is a link or a file in the product"
	default:
		return state{}, "its directory cannot be opened: " + openFact("", err).Detail
	}
	st, err := statAt(fd, name)
	if errors.Is(err, unix.ENOENT) {
		return state{}, ""
	}
	if err != nil {
		return state{}, "it cannot be looked at: " + err.Error()
	}
	return state{there: true, st: st}, ""
}

// compare reports whether the path is already as sealed, or why it is neither
// that nor the baseline.
func (p *planner) compare(a *action) (done bool, reason string) {
	if !a.now.there {
		switch {
		case a.after == nil:
			return true, ""
		case a.before == nil:
			return false, ""
		}
		return false, "the product does not have it any more"
	}
	cur, st, err := p.entryAt(p.product, a.path)
	if err != nil {
		return false, "the product cannot be read: " + err.Error()
	}
	if cur == nil || !sameState(&st, &a.now.st) {
		return false, "the product changes while it is read"
	}
	isBase, isSealed := same(cur, a.before), same(cur, a.after)
	if p.becomesDir[a.path] && cur.Type == TypeDir {
		isBase = true // somebody, or an interrupted apply, made it
	}
	if !isBase && !isSealed && gitIndexPath(a.path) && cur.Type == TypeFile {
		isBase, isSealed = p.sameIndex(a)
	}
	switch {
	case isSealed:
		return true, ""
	case isBase:
		return false, ""
	case a.before == nil:
		return false, "the product has something else there already"
	}
	return false, "the product's own has changed since the session began"
}

// sameState reports whether two looks at a path saw the same file, unchanged.
func sameState(a, b *unix.Stat_t) bool {
	return idOf(a) == idOf(b) && a.Mode == b.Mode && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}

// same compares without setuid and setgid bits, which a stage never has.
func same(cur, want *Entry) bool {
	if want == nil {
		return false
	}
	c, w := *cur, *want
	c.Mode &^= setIDBits
	w.Mode &^= setIDBits
	return c == w
}

func gitIndexPath(path string) bool { return base(path) == "index" && InGit(path) }

// maxIndex bounds a git index that is compared by its meaning.
const maxIndex = 64 << 20

// sameIndex compares the product's index with the baseline's and the stage's.
func (p *planner) sameIndex(a *action) (isBase, isSealed bool) {
	digest := p.plan.in.IndexDigest
	if digest == nil {
		return false, false
	}
	cur, err := p.content(p.product, a.path)
	if err != nil {
		return false, false
	}
	sum, err := digest(cur)
	if err != nil {
		return false, false
	}
	want, known := p.plan.in.BaselineIndex[a.path]
	isBase = a.before != nil && known && want == sum
	if a.after == nil {
		return isBase, false
	}
	staged, err := p.content(p.stage, a.path)
	if err != nil {
		return isBase, false
	}
	sealed, err := digest(staged)
	return isBase, err == nil && sealed == sum
}

// checkReplacedDirs finds what a directory holds that has to become a file, and
// that no manifest knows.
func (p *planner) checkReplacedDirs() {
	for path := range p.leavesDir {
		fd, name, err := p.product.parent(path)
		if err != nil {
			continue // a conflict already, or already done
		}
		dir, err := openBeneath(fd, name, openDir, 0)
		if err != nil {
			continue
		}
		names, _, err := readNames(dir, 64<<20, p.buf)
		unix.Close(dir)
		if err != nil {
			p.conflict(path, "the product's directory cannot be listed: "+err.Error())
		}
		for _, n := range names {
			if child := join(path, n.name); !p.removed[child] {
				p.conflict(child, "a file takes its directory's place, and the session does not know it")
			}
		}
	}
}
