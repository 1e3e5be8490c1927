package product

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"

	"golang.org/x/sys/unix"
)

// worker reads the files of a walk.
type worker struct {
	w    *walker
	buf  []byte
	keep []byte // content for the Extractor that does not fit buf
	zero []byte
	hash hash.Hash
}

// readBuffer is large enough that the cost of a system call vanishes beside
// that of hashing, and small enough for the processor's cache.
const readBuffer = 256 << 10

func newWorker(w *walker) *worker {
	return &worker{w: w, buf: make([]byte, readBuffer), hash: sha256.New()}
}

func (k *worker) run() {
	for b := range k.w.work {
		for {
			i := int(b.next.Add(1)) - 1
			if i >= len(b.items) {
				break
			}
			it := &b.items[i]
			if it.kind == itemWork && k.w.ctx.Err() == nil {
				k.do(it)
			}
			if b.left.Add(-1) == 0 {
				close(b.done)
			}
		}
	}
}

func (k *worker) do(it *item) {
	switch it.typ {
	case unix.DT_REG:
		k.file(it)
	case unix.DT_LNK:
		k.link(it)
	default:
		k.special(it)
	}
}

// unopened fills it for a name that cannot be opened.
func (k *worker) unopened(it *item, err error) {
	u := unopened(it.dir.fd, it.name, it.path, err)
	it.known, it.entry, it.facts = u.known, u.entry, u.facts
}

func (it *item) fact(kind FactKind, detail string) {
	it.facts = append(it.facts, Fact{Path: it.path, Kind: kind, Detail: Text(detail)})
}

func (k *worker) special(it *item) {
	st, err := statAt(it.dir.fd, it.name)
	if err != nil {
		k.unopened(it, err)
		return
	}
	t := typeOf(st.Mode)
	if !t.Special() {
		it.fact(FactChanged, "replaced while it was read")
		return
	}
	if k.w.stage != nil {
		it.fact(FactLeftOut, "a "+string(t))
		return
	}
	it.known, it.meta = true, st
	it.entry = Entry{Path: it.path, Type: t, Mode: st.Mode & 0o7777}
	if t == TypeBlock || t == TypeChar {
		it.entry.SHA256 = sha256.Sum256(fmt.Appendf(nil, "%d:%d", unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))))
	}
}

func (k *worker) link(it *item) {
	target, err := readLink(it.dir.fd, it.name)
	if err != nil {
		k.unopened(it, err)
		return
	}
	it.known = true
	it.entry = Entry{Path: it.path, Type: TypeSymlink, Mode: 0o777, Size: int64(len(target)), SHA256: sha256.Sum256([]byte(target))}
	if k.w.stage != nil {
		k.w.stage.makeLink(it, target)
	}
	if x := k.w.ext; it.known && x != nil {
		it.facts = append(it.facts, x.Extract(it.entry, []byte(target))...)
	}
}

func (k *worker) file(it *item) {
	fd, err := openBeneath(it.dir.fd, it.name, openFile, 0)
	if err != nil {
		k.unopened(it, err)
		return
	}
	defer unix.Close(fd)
	st, err := fstat(fd)
	if err != nil {
		k.unopened(it, err)
		return
	}
	if typeOf(st.Mode) != TypeFile {
		it.fact(FactChanged, "replaced while it was read")
		return
	}
	it.meta = st
	it.entry = Entry{Path: it.path, Type: TypeFile, Mode: st.Mode & 0o7777, Size: st.Size}
	if st.Size > k.w.limits.FileBytes || !k.w.bytes.take(st.Size) {
		it.known = k.w.stage == nil
		it.fact(FactLimit, "over the limit: bytes of content")
		return
	}
	wanted := 0
	if k.w.ext != nil {
		wanted = min(k.w.ext.Wants(it.path), maxWanted)
	}
	if k.w.stage != nil {
		k.copyFile(it, fd, wanted)
		return
	}
	content, err := k.digest(it, fd, wanted)
	k.settle(it, fd, content, wanted, err)
}

// settle decides what the reading of a file came to.
func (k *worker) settle(it *item, fd int, content []byte, wanted int, err error) {
	// A small file was read at one moment; only its length could differ, and
	// that was noticed.
	if err == nil && it.entry.Size >= readBuffer && !unchanged(fd, &it.meta) {
		err = errFileChanged
	}
	if errors.Is(err, errFileChanged) {
		it.fact(FactChanged, err.Error())
		return
	}
	it.known = true
	if err != nil {
		it.entry.SHA256 = [32]byte{}
		it.fact(FactUnreadable, err.Error())
		return
	}
	// Without an execute bit a capability has no effect, and the bit's coming
	// back is a change.
	if it.entry.Mode&0o111 != 0 && hasFileCapability(fd) {
		it.fact(FactCapability, "")
	}
	if wanted > 0 {
		it.facts = append(it.facts, k.w.ext.Extract(it.entry, content)...)
	}
}

// unchanged reports whether the file is still as st says.
func unchanged(fd int, st *unix.Stat_t) bool {
	now, err := fstat(fd)
	return err == nil && now.Size == st.Size && now.Mtim == st.Mtim && now.Ctim == st.Ctim
}
