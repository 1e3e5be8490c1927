package ledger

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
)

const (
	lockFile   = "lock"
	headFile   = "head"
	ledgerFile = "ledger"
)

// Verifier checks an envelope; *keys.Verifier is one. One of public keys is
// enough to read; seal and verify use one that demands both signatures.
type Verifier interface {
	Verify(envelope []byte, payloadType string) (payload []byte, err error)
}

// Trust is what a ledger is held against.
type Trust struct {
	ControlID string
	Verifier  Verifier
	Anchor    *Anchor // nil at first use
}

// Ledger is one opened ledger. It is safe for concurrent use.
type Ledger struct {
	store store
	trust Trust

	mu    sync.Mutex
	held  *os.File // the head that state was read under; held, its inode cannot be another head's
	stamp stamp
	state *State
	seen  *Anchor // the latest moment that this Ledger read or wrote, or trust's anchor
}

// stamp tells one head file from another, and from itself changed in place.
type stamp struct {
	dev, ino     uint64
	size         int64
	ctime, mtime unix.Timespec
}

// Open opens a ledger, verifies its head, and holds it against the anchor. It
// reads the acts only if the anchor is of an earlier moment; View verifies
// them. The error wraps ErrNoLedger if there is none (and ErrAnchor, too, if
// one was known here).
func Open(dir string, rules safedir.Rules, trust Trust) (*Ledger, error) {
	d, err := safedir.Open(dir, rules)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l, err := openStore(dirStore{d}, trust)
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("open ledger %q: %w", dir, err)
	}
	return l, nil
}

func openStore(s store, trust Trust) (*Ledger, error) {
	l := &Ledger{store: s, trust: trust, seen: trust.Anchor}
	f, _, h, err := l.readHead()
	if err != nil {
		return nil, err
	}
	f.Close()
	a := trust.Anchor
	if a == nil {
		return l, nil
	}
	if a.ControlID == h.Control && a.Count == h.Count && a.Hash == h.Hash {
		return l, nil
	}
	state, err := l.View()
	if err != nil {
		return nil, err
	}
	return l, state.Contains(*a)
}

// Close releases the ledger's files. It is idempotent.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
	return l.store.Close()
}

func (l *Ledger) forget() {
	if l.held != nil {
		l.held.Close()
	}
	l.held, l.state = nil, nil
}

// readHead opens and verifies the head; the caller closes the file.
func (l *Ledger) readHead() (*os.File, stamp, head, error) {
	fail := func(err error) (*os.File, stamp, head, error) { return nil, stamp{}, head{}, err }
	f, err := l.store.OpenFile(headFile, unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return fail(l.noHead(err))
	}
	if err != nil {
		return fail(err)
	}
	st, err := stampOf(f)
	var env bytes.Buffer
	if err == nil {
		_, err = env.ReadFrom(io.LimitReader(f, maxHead+1))
	}
	if err == nil && env.Len() > maxHead {
		err = &BrokenError{Reason: fmt.Sprintf("more than %d bytes", maxHead)}
	}
	var h head
	if err == nil {
		h, err = parseHead(bytes.TrimSuffix(env.Bytes(), []byte("\n")), l.trust)
	}
	if err != nil {
		f.Close()
		return fail(fmt.Errorf("read %q: %w", f.Name(), err))
	}
	return f, st, h, nil
}

// noHead says what a missing head means: nothing was ever here only if there
// are no acts and none were known.
func (l *Ledger) noHead(missing error) error {
	f, err := l.store.OpenFile(ledgerFile, unix.O_RDONLY)
	if !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			f.Close()
		}
		return &BrokenError{Reason: fmt.Sprintf("missing beside a ledger: %v", missing)}
	}
	if l.trust.Anchor != nil {
		return fmt.Errorf("%w: %w: %d acts were known", ErrNoLedger, ErrAnchor, l.trust.Anchor.Count)
	}
	return ErrNoLedger
}

func stampOf(f *os.File) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return stamp{}, fmt.Errorf("stat %q: %w", f.Name(), err)
	}
	return toStamp(st), nil
}

func toStamp(st unix.Stat_t) stamp {
	return stamp{dev: st.Dev, ino: st.Ino, size: st.Size, ctime: st.Ctim, mtime: st.Mtim}
}

// View returns the state now. It reads what was added since the last call, and
// nothing if the head is still the same. A ledger that does not contain what
// this Ledger, or its anchor, already saw is refused.
func (l *Ledger) View() (*State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view()
}

// maxRetries bounds reading a ledger that is compacted meanwhile.
const maxRetries = 5

func (l *Ledger) view() (*State, error) {
	if l.unchanged() {
		return l.state, nil
	}
	for try := 0; ; try++ {
		f, st, h, err := l.readHead()
		if err != nil {
			return nil, err
		}
		state, err := l.read(h)
		if err == nil {
			err = l.forward(state)
		}
		if err == nil {
			l.forget()
			l.held, l.stamp, l.state = f, st, state
			a := state.Anchor()
			l.seen = &a
			return state, nil
		}
		f.Close()
		if now, err2 := l.headStamp(); try == maxRetries || err2 != nil || now == st {
			return nil, err
		}
	}
}

func (l *Ledger) unchanged() bool {
	if l.state == nil {
		return false
	}
	now, err := l.headStamp()
	return err == nil && now == l.stamp
}

func (l *Ledger) headStamp() (stamp, error) {
	st, err := l.store.Stat(headFile)
	return toStamp(st), err
}

// forward refuses a state that does not contain what was seen before.
func (l *Ledger) forward(s *State) error {
	if l.seen == nil {
		return nil
	}
	return s.Contains(*l.seen)
}

// read brings the state to the head: from where it was, or, where that does not
// fit because lines were dropped meanwhile, from the start.
func (l *Ledger) read(h head) (*State, error) {
	f, err := l.store.OpenFile(ledgerFile, unix.O_RDONLY)
	if err != nil {
		return nil, &BrokenError{Seq: 1, Reason: err.Error()}
	}
	defer f.Close()
	if l.state != nil && l.state.at.count <= h.Count && l.state.at.size <= h.Size {
		if s, err := readFrom(f, l.state.clone(), h); err == nil {
			return s, nil
		}
	}
	s, err := readFrom(f, newState(l.trust.ControlID), h)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", f.Name(), err)
	}
	return s, nil
}

func readFrom(f io.ReaderAt, s *State, h head) (*State, error) {
	in := bufio.NewReaderSize(io.NewSectionReader(f, s.at.size, h.Size-s.at.size), MaxLine+1)
	scan := newScanner(s.at)
	for scan.at.count < h.Count {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return nil, &BrokenError{Seq: scan.at.count + 1, Reason: lineProblem(err, line)}
		}
		entry, err := scan.line(line[:len(line)-1])
		if err != nil {
			return nil, err
		}
		if err := s.apply(entry, scan.at); err != nil {
			return nil, err
		}
	}
	if !s.at.matches(h) {
		return nil, &BrokenError{Seq: h.Count, Reason: "the head signs another chain: this act, or which acts were dropped, is not what was signed"}
	}
	return s, nil
}

func lineProblem(err error, line []byte) string {
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Sprintf("more than %d bytes", MaxLine)
	case errors.Is(err, io.EOF) && len(line) == 0:
		return "missing"
	case errors.Is(err, io.EOF):
		return "cut"
	}
	return err.Error()
}

var (
	_ Verifier = (*keys.Verifier)(nil)
	_ Signer   = (*keys.Signer)(nil)
)
