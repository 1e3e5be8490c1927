package ledger

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
)

// Signer signs heads; *keys.Signer is one.
type Signer interface {
	Sign(ctx context.Context, payloadType string, payload []byte) (envelope []byte, err error)
	Public() keys.Public
}

// Acted is what an act, or several at once, did.
type Acted struct {
	Entries []Entry
	Anchor  Anchor // of the ledger after them
	// Surplus is how many bytes of an act that failed earlier were dropped.
	Surplus int64
}

// store is the directory that a ledger lives in.
type store interface {
	OpenFile(name string, flags int) (*os.File, error)
	Stat(name string) (unix.Stat_t, error)
	SyncFile(f *os.File) error
	WriteAt(f *os.File, b []byte, at int64) error
	Rename(old, new string) error
	Remove(name string) error
	Sync() error
	Lock(ctx context.Context, name string) (unlock func(), err error)
	Close() error
}

type dirStore struct{ *safedir.Dir }

func (dirStore) SyncFile(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

func (dirStore) WriteAt(f *os.File, b []byte, at int64) error {
	_, err := f.WriteAt(b, at)
	return err
}

// Create makes a ledger whose first act is init. A directory that holds a
// ledger or a head is refused with an error that wraps fs.ErrExist.
func Create(ctx context.Context, dir string, rules safedir.Rules, trust Trust, signer Signer, by string, now time.Time) (*Ledger, Acted, error) {
	d, err := safedir.Open(dir, rules)
	if err != nil {
		return nil, Acted{}, fmt.Errorf("create ledger: %w", err)
	}
	l := &Ledger{store: dirStore{d}, trust: trust}
	did, err := l.create(ctx, signer, by, now)
	if err != nil {
		d.Close()
		return nil, Acted{}, fmt.Errorf("create ledger in %q: %w", dir, err)
	}
	return l, did, nil
}

func (l *Ledger) create(ctx context.Context, signer Signer, by string, now time.Time) (Acted, error) {
	unlock, err := l.store.Lock(ctx, lockFile)
	if err != nil {
		return Acted{}, err
	}
	defer unlock()
	f, err := l.store.OpenFile(headFile, unix.O_RDONLY)
	if err == nil {
		f.Close()
		return Acted{}, fs.ErrExist
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return Acted{}, err
	}
	if l.trust.Anchor != nil {
		return Acted{}, l.noHead(err)
	}
	if err := l.onlyBegun(); err != nil {
		return Acted{}, err
	}
	e := Entry{Time: now.UTC(), By: by, Kind: KindInit, Init: &InitAct{ControlID: l.trust.ControlID}}
	return l.append(ctx, signer, start(l.trust.ControlID), []Entry{e}, unix.O_CREAT|unix.O_EXCL)
}

// onlyBegun refuses a ledger without a head, unless it is what an interrupted
// creation leaves: the init act at most.
func (l *Ledger) onlyBegun() error {
	f, err := l.store.OpenFile(ledgerFile, unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxLine+1))
	if err != nil {
		return err
	}
	if i := bytes.IndexByte(b, '\n'); i >= 0 && i != len(b)-1 || len(b) > MaxLine {
		return &BrokenError{Reason: "missing beside a ledger of several acts"}
	}
	return nil
}

// Act does one act, or several that count together or not at all. It needs the
// head only, not the acts before it, so its cost does not grow with the ledger.
// On an error the state is the old one.
func (l *Ledger) Act(ctx context.Context, signer Signer, acts ...Entry) (Acted, error) {
	return l.locked(ctx, func(h head) (Acted, error) {
		return l.append(ctx, signer, h.links(), acts, 0)
	})
}

// Update is Act for acts that depend on the state: decide sees the state that
// they will follow, and nothing comes between. Its error is returned as it is,
// and nothing is recorded; so it is where it returns no act.
func (l *Ledger) Update(ctx context.Context, signer Signer, decide func(*State) ([]Entry, error)) (Acted, error) {
	return l.locked(ctx, func(head) (Acted, error) {
		s, err := l.view()
		if err != nil {
			return Acted{}, err
		}
		acts, err := decide(s)
		if err != nil {
			return Acted{}, err
		}
		return l.append(ctx, signer, s.at, acts, 0)
	})
}

// Rotate is Act for the first act of a new epoch. The head before it is
// verified by the old trust, which may not hold any longer (a compromised
// epoch's head); from here on the ledger is held against next.
func (l *Ledger) Rotate(ctx context.Context, signer Signer, next Verifier, e Entry) (Acted, error) {
	return l.locked(ctx, func(h head) (Acted, error) {
		old := l.trust.Verifier
		l.trust.Verifier = next
		did, err := l.append(ctx, signer, h.links(), []Entry{e}, 0)
		if err != nil {
			l.trust.Verifier = old
		}
		return did, err
	})
}

func (l *Ledger) locked(ctx context.Context, do func(head) (Acted, error)) (Acted, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unlock, err := l.store.Lock(ctx, lockFile)
	if err != nil {
		return Acted{}, fmt.Errorf("act: %w", err)
	}
	defer unlock()
	f, _, h, err := l.readHead()
	if err != nil {
		return Acted{}, fmt.Errorf("act: %w", err)
	}
	f.Close()
	if err := l.notLower(h); err != nil {
		return Acted{}, fmt.Errorf("act: %w", err)
	}
	return do(h)
}

// notLower refuses to go on from a head that is older than what was seen.
func (l *Ledger) notLower(h head) error {
	if l.seen == nil || h.Count > l.seen.Count || (h.Count == l.seen.Count && h.Hash == l.seen.Hash) {
		return nil
	}
	return fmt.Errorf("%w: %d acts, known %d", ErrAnchor, h.Count, l.seen.Count)
}

// append writes the acts after the given end of the chain, under the lock.
func (l *Ledger) append(ctx context.Context, signer Signer, at links, acts []Entry, create int) (Acted, error) {
	if len(acts) == 0 {
		return Acted{Anchor: l.anchorAt(at)}, nil
	}
	acts = slices.Clone(acts)
	var lines []byte
	next := at
	for i := range acts {
		e := &acts[i]
		e.Seq, e.Prev, e.Time = next.count+1, hexOf(next.hash), e.Time.UTC()
		if err := e.validate(); err != nil {
			return Acted{}, err
		}
		line, err := marshalLine(*e)
		if err != nil {
			return Acted{}, fmt.Errorf("act %d: %w", e.Seq, err)
		}
		if next = next.next(line, digestOf(line)); next.size > MaxSize {
			return Acted{}, fmt.Errorf("act %d: ledger of %d bytes, at most %d", e.Seq, next.size, MaxSize)
		}
		lines = append(append(lines, line...), '\n')
	}
	first := at.count + 1
	env, err := signHead(ctx, signer, next.head(l.trust.ControlID, signer.Public().Epoch), l.trust)
	if err != nil {
		return Acted{}, fmt.Errorf("act %d: %w", first, err)
	}
	surplus, err := l.writeLine(at.size, lines, create)
	if err != nil {
		return Acted{}, fmt.Errorf("act %d: append: %w", first, err)
	}
	if err := l.replaceHead(append(env, '\n')); err != nil {
		return Acted{}, fmt.Errorf("act %d: %w", first, err)
	}
	anchor := l.anchorAt(next)
	l.seen = &anchor
	return Acted{Entries: acts, Surplus: surplus, Anchor: anchor}, nil
}

func (l *Ledger) anchorAt(at links) Anchor {
	return Anchor{ControlID: l.trust.ControlID, Count: at.count, Hash: hexOf(at.hash)}
}

// signHead signs, and refuses a signer whose heads this ledger's readers would
// not accept: better now than at the next start.
func signHead(ctx context.Context, signer Signer, h head, trust Trust) ([]byte, error) {
	payload, err := marshalHead(h)
	if err != nil {
		return nil, err
	}
	env, err := signer.Sign(ctx, HeadType, payload)
	if err != nil {
		return nil, err
	}
	if _, err := parseHead(env, trust); err != nil {
		return nil, fmt.Errorf("this signer is not trusted here: %w", err)
	}
	return env, nil
}

// writeLine puts the lines at the end that the head signs. What is behind it
// was left by an act that failed.
func (l *Ledger) writeLine(at int64, line []byte, create int) (surplus int64, err error) {
	f, err := l.store.OpenFile(ledgerFile, unix.O_RDWR|create)
	if errors.Is(err, fs.ErrExist) {
		f, err = l.store.OpenFile(ledgerFile, unix.O_RDWR)
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if st.Size() < at {
		return 0, &BrokenError{Reason: fmt.Sprintf("signs %d bytes, the ledger has %d", at, st.Size())}
	}
	if surplus = st.Size() - at; surplus > 0 {
		if err := f.Truncate(at); err != nil {
			return 0, err
		}
	}
	if err := l.store.WriteAt(f, line, at); err != nil {
		return 0, err
	}
	return surplus, l.store.SyncFile(f)
}

// replaceHead makes the act count. A directory whose sync fails after the
// rename is no failure: the head landed, and to report the act as undone would
// be wrong for everybody who reads it.
func (l *Ledger) replaceHead(env []byte) error {
	temp := "." + headFile + "." + rand.Text() + ".tmp"
	f, err := l.store.OpenFile(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return fmt.Errorf("new head: %w", err)
	}
	err = l.store.WriteAt(f, env, 0)
	if err == nil {
		err = l.store.SyncFile(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = l.store.Rename(temp, headFile)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("new head: %w", err), l.store.Remove(temp))
	}
	_ = l.store.Sync()
	return nil
}
