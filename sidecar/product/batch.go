package product

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

type itemKind uint8

const (
	itemReady  itemKind = iota // entry and facts are already there
	itemWork                   // a worker fills entry and facts
	itemDirEnd                 // Stage only: everything in the directory is written
)

// item is one result on its way from the producer, over a worker, to the sink.
type item struct {
	kind  itemKind
	typ   byte // DT_*
	known bool // entry is valid
	dir   *dir
	name  string
	path  string
	entry Entry
	facts []Fact
	meta  unix.Stat_t
}

func (it *item) release() {
	if it.dir != nil {
		it.dir.drop()
		it.dir = nil
	}
}

// batch is a run of items. Both workers take single items of it, so that one
// large file holds up one worker only.
type batch struct {
	items []item
	next  atomic.Int32
	left  atomic.Int32 // items that no worker has finished
	done  chan struct{}
}

// emit adds an item to the current batch.
func (w *walker) emit(it item) {
	if w.cur == nil {
		w.cur = &batch{items: make([]item, 0, batchSize), done: make(chan struct{})}
	}
	w.cur.items = append(w.cur.items, it)
	if len(w.cur.items) == batchSize {
		w.flush()
	}
}

// flush hands the current batch to the workers and to the consumer. It always
// succeeds: both take what they are given until the channels are closed.
func (w *walker) flush() {
	b := w.cur
	if b == nil {
		return
	}
	w.cur = nil
	b.left.Store(int32(len(b.items)))
	w.order <- b
	for range workers {
		w.work <- b
	}
}

// bytesLeft is the budget of content.
type bytesLeft struct{ left atomic.Int64 }

func (b *bytesLeft) take(n int64) bool { return b.left.Add(-n) >= 0 }

// linkTable counts the names of files that have more than one.
type linkTable struct {
	seen map[fileID]*linked
	over bool
}

type linked struct {
	first string
	want  uint64
	got   uint64
}

// maxLinked bounds the table: about 100 bytes and a path each.
const maxLinked = 200_000

func newLinkTable() *linkTable { return &linkTable{seen: make(map[fileID]*linked)} }

func (t *linkTable) add(it *item) {
	if it.meta.Nlink < 2 || it.entry.Type == TypeDir {
		return
	}
	id := idOf(&it.meta)
	l := t.seen[id]
	if l == nil {
		if len(t.seen) == maxLinked {
			t.over = true
			return
		}
		l = &linked{first: it.entry.Path, want: uint64(it.meta.Nlink)}
		t.seen[id] = l
	}
	l.got++
}
