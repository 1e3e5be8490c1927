package product

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// WalkOptions are a walk's limits and its Extractor, which may be nil.
type WalkOptions struct {
	Limits    Limits
	Extractor Extractor
}

// Walk reads the tree below the directory root, which it does not close, and
// gives its entries to sink in the byte order of their paths, each followed by
// its facts. What cannot be read is a fact; the error is for a root that is not
// a readable directory, a sink that failed, or a context that ended. Memory
// grows with the largest directories on one path, not with the tree.
func Walk(ctx context.Context, root *os.File, opts WalkOptions, sink Sink) error {
	w, err := newWalker(ctx, root, opts, nil)
	if err != nil {
		return fmt.Errorf("walk tree: %w", err)
	}
	if err := w.run(sink); err != nil {
		return fmt.Errorf("walk tree: %w", err)
	}
	if opts.Extractor == nil {
		return nil
	}
	return finish(opts.Extractor, &Tree{root: int(root.Fd())}, w.limits, sink)
}

// finish reports what the Extractor knows only at the end.
func finish(x Extractor, t *Tree, limits Limits, sink Sink) error {
	facts := x.Finish(t)
	if int64(len(facts)) > limits.Facts {
		facts = append(facts[:limits.Facts:limits.Facts], limitFact("", "facts of the whole tree"))
	}
	for _, f := range facts {
		if err := sink.Fact(f); err != nil {
			return fmt.Errorf("walk tree: %w", err)
		}
	}
	return nil
}

func limitFact(path, what string) Fact {
	return Fact{Path: path, Kind: FactLimit, Detail: Text("over the limit: " + what)}
}

const (
	workers      = 2
	batchSize    = 48
	batchesAhead = 3
	// openLevels is how many directories on the way down stay open. Deeper
	// trees close their upper levels and find them again through "..".
	openLevels = 48
)

// walker is the state of one walk. Its producer goroutine lists directories,
// two workers read files, and the caller's goroutine takes the results in order.
type walker struct {
	ctx    context.Context
	limits Limits
	ext    Extractor
	stage  *stager // nil: walk only
	root   *level

	stack     []*level
	lowest    int // first level of the stack that is open
	cur       *batch
	order     chan *batch
	work      chan *batch
	entries   int64
	pathBytes int64
	nameBytes int64
	listBuf   []byte
	path      []byte // of the stack's top; those of lower levels are prefixes
	extracted int64

	bytes bytesLeft
}

func newWalker(ctx context.Context, root *os.File, opts WalkOptions, s *stager) (*walker, error) {
	// A descriptor of our own: its offset is the listing's position.
	fd, err := openBeneath(int(root.Fd()), ".", openDir, 0)
	if err != nil { // ENOSYS: a kernel before 5.6, or a sandbox without openat2
		return nil, fmt.Errorf("open root: %w", err)
	}
	st, err := fstat(fd)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("stat root: %w", err)
	}
	w := &walker{
		ctx: ctx, limits: opts.Limits.withDefaults(), ext: opts.Extractor, stage: s,
		order: make(chan *batch, batchesAhead), work: make(chan *batch, workers*batchesAhead),
		listBuf: make([]byte, 64<<10),
	}
	w.bytes.left.Store(w.limits.TotalBytes)
	w.root = &level{dir: newDir(fd, -1), id: idOf(&st), meta: st}
	if s != nil {
		if err := s.openRoot(w.root); err != nil {
			w.root.dir.drop()
			return nil, err
		}
	}
	return w, nil
}

// run walks, and returns when every goroutine has ended.
func (w *walker) run(sink Sink) error {
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	w.ctx = ctx
	var wg sync.WaitGroup
	wg.Go(func() { w.produce() })
	for range workers {
		k := newWorker(w)
		wg.Go(k.run)
	}
	links := newLinkTable()
	for b := range w.order {
		<-b.done
		for i := range b.items {
			it := &b.items[i]
			if ctx.Err() == nil {
				if err := w.deliver(it, sink, links); err != nil {
					cancel(err)
				}
			}
			it.release()
		}
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return links.report(sink)
}

func (w *walker) deliver(it *item, sink Sink, links *linkTable) error {
	if it.kind == itemDirEnd {
		return w.stage.finishDir(it)
	}
	if it.known {
		if err := sink.Entry(it.entry); err != nil {
			return err
		}
		links.add(it)
	}
	for _, f := range it.facts {
		if err := w.fact(sink, f); err != nil {
			return err
		}
	}
	return nil
}

// pathOf is the path of a level that is on the stack.
func (w *walker) pathOf(l *level) string { return string(w.path[:l.pathLen]) }

func (w *walker) fact(sink Sink, f Fact) error {
	if !f.Kind.Breaks() && f.Kind != FactLeftOut {
		if w.extracted++; w.extracted > w.limits.Facts+1 {
			return nil
		}
		if w.extracted == w.limits.Facts+1 {
			f = limitFact("", "facts of the whole tree")
		}
	}
	if w.stage != nil {
		f = w.stage.fact(f)
	}
	return sink.Fact(f)
}

// produce is the producer goroutine.
func (w *walker) produce() {
	defer close(w.work)
	defer close(w.order)
	w.push(w.root, "")
	for len(w.stack) > 0 && w.ctx.Err() == nil {
		top := w.stack[len(w.stack)-1]
		if top.next == len(top.list) {
			w.pop()
			continue
		}
		c := top.list[top.next]
		top.next++
		if name, sub := c.split(); sub {
			w.enter(top, name)
		} else {
			w.visit(top, name, c.typ)
		}
	}
	for len(w.stack) > 0 { // only when the context ended
		w.abandon()
	}
	w.flush()
}

// push lists the directory of l and puts it on the stack.
func (w *walker) push(l *level, path string) {
	w.path = append(w.path[:0], path...)
	l.pathLen = len(path)
	names, held, err := readNames(l.dir.fd, w.limits.NameBytes-w.nameBytes, w.listBuf)
	switch {
	case errors.Is(err, errTooMany):
		w.emit(item{facts: []Fact{limitFact(path, "names in a directory")}})
	case err != nil:
		w.emit(item{facts: []Fact{{Path: path, Kind: FactUnreadable, Detail: Text(err.Error())}}})
	default:
		l.list, l.held = listing(names), held
		w.nameBytes += held
	}
	w.stack = append(w.stack, l)
	if len(w.stack)-w.lowest > openLevels {
		w.stack[w.lowest].dir.drop()
		w.stack[w.lowest].dir = nil
		w.lowest++
	}
}

// pop leaves the top directory, whose listing is done.
func (w *walker) pop() {
	top := w.stack[len(w.stack)-1]
	if len(w.stack) > 1 && w.stack[len(w.stack)-2].dir == nil {
		w.reopen(w.stack[len(w.stack)-2], top)
	}
	if w.stage != nil && top.dir != nil {
		w.emit(item{kind: itemDirEnd, dir: top.dir.keep(), path: w.pathOf(top), meta: top.meta})
	}
	w.abandon()
}

// abandon takes the top level off the stack.
func (w *walker) abandon() {
	top := w.stack[len(w.stack)-1]
	w.stack = w.stack[:len(w.stack)-1]
	w.lowest = min(w.lowest, max(len(w.stack)-1, 0))
	w.nameBytes -= top.held
	for _, d := range top.dirs {
		if d.fd >= 0 {
			unix.Close(d.fd)
		}
	}
	if top.dir != nil {
		top.dir.drop()
	}
}

// reopen opens parent again, as child's "..". Whoever moved child somewhere
// else meanwhile finds that its new parent is not the one we left.
func (w *walker) reopen(parent, child *level) {
	fd, out := -1, -1
	if child.dir != nil {
		fd = openSame(child.dir.fd, parent.id)
		if w.stage != nil {
			out = openSame(child.dir.out, parent.outID)
		}
	}
	if fd >= 0 && (w.stage == nil || out >= 0) {
		parent.dir = newDir(fd, out)
		return
	}
	for _, d := range []int{fd, out} {
		if d >= 0 {
			unix.Close(d)
		}
	}
	w.emit(item{facts: []Fact{{Path: w.pathOf(parent), Kind: FactChanged, Detail: "moved while it was read"}}})
	parent.next = len(parent.list)
}

// openSame opens the parent of the directory fd, if it is the one with the
// given identity, else it returns -1.
func openSame(fd int, id fileID) int {
	up, err := unix.Openat(fd, "..", openDir|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1
	}
	if st, err := fstat(up); err != nil || idOf(&st) != id {
		unix.Close(up)
		return -1
	}
	return up
}
