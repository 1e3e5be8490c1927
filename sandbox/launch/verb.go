package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Needs is what one of the operator's verbs gets to see.
type Needs struct {
	RootKeys   bool // read-only; writable for init and rotate
	WriteKeys  bool
	LedgerKeys bool
	Ledger     access
	Session    string // its part, read-only
}

// verbTimeout bounds one of the operator's verbs.
const verbTimeout = 2 * time.Minute

// Verb runs one of the operator's verbs in a short-lived supervisor container
// and reads its answer. The ledger must contain what the launcher remembers of
// it. stdin may be nil.
func (l *Launcher) Verb(ctx context.Context, argv []string, n Needs, stdin io.Reader, answer any) error {
	known, err := l.cfg.Home.Anchor(l.place.Engine)
	if err != nil {
		return err
	}
	if known != nil {
		argv = append(slices.Clone(argv), "--known-control", known.ControlID,
			"--known-count", strconv.FormatUint(known.Count, 10), "--known-hash", known.Hash)
	}
	return l.verb(ctx, argv, n, stdin, answer)
}

// Restored answers with the keys and the ledger that are there now, whatever
// the launcher remembers.
func (l *Launcher) Restored(ctx context.Context, answer *wire.KeysReply) error {
	return l.verb(ctx, []string{"keys"}, Needs{LedgerKeys: true, Ledger: readOnly}, nil, answer)
}

func (l *Launcher) verb(ctx context.Context, argv []string, n Needs, stdin io.Reader, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, verbTimeout)
	defer cancel()
	spec := l.spec("v"+strings.ToLower(rand.Text()[:11]), sandbox.RoleVerb, argv, l.verbMounts(n)...)
	var in *os.File
	if stdin != nil {
		pipe, err := l.newInput()
		if err != nil {
			return err
		}
		fed := pipe.feed(stdin)
		defer func() { pipe.close(); <-fed }()
		in = pipe.r
	}
	out := &stepAnswer{}
	if _, err := l.runStep(ctx, spec, in, out); err != nil {
		return err
	}
	if answer == nil {
		return nil
	}
	if err := out.read(answer); err != nil {
		return fmt.Errorf("%s: read its answer: %w", argv[0], err)
	}
	return nil
}

func (l *Launcher) verbMounts(n Needs) []sandbox.Mount {
	keys := readOnly
	if n.WriteKeys {
		keys = readWrite
	}
	mounts := []sandbox.Mount{l.part(sandbox.PartLedger, "", n.Ledger)}
	if n.RootKeys {
		root := keys
		if _, ok := l.cfg.Engine.(sandbox.Whole); ok { // the key is given to it, not made there
			root = readOnly
		}
		mounts = append(mounts, l.part(sandbox.PartRootKeys, "", root))
	}
	if n.LedgerKeys {
		mounts = append(mounts, l.part(sandbox.PartLedgerKeys, "", keys))
	}
	if n.Session != "" {
		mounts = append(mounts, l.part(sandbox.PartSession, n.Session, readOnly))
	}
	return mounts
}

// Init makes keys and control: the parts, owned by the supervisor, and inside
// them, by the supervisor, the first root key and the ledger's first act.
func Init(ctx context.Context, cfg Config, place home.Config, answer *wire.KeysReply) (*Launcher, error) {
	l, err := open(ctx, cfg, place)
	if err != nil {
		return nil, err
	}
	parts := []sandbox.Part{sandbox.PartRootKeys, sandbox.PartLedgerKeys, sandbox.PartLedger, sandbox.PartCache}
	// A part that is there without a home that knows of it is what an init that
	// was killed left; the init step says whether it may go on with it.
	var made []sandbox.Part
	undo := func(err error) error {
		clean := context.WithoutCancel(ctx)
		for _, p := range made {
			err = errors.Join(err, cfg.Engine.RemovePart(clean, p, ""))
		}
		return err
	}
	for _, p := range parts {
		has, err := cfg.Engine.HasPart(ctx, p, "")
		if err != nil {
			return nil, undo(err)
		}
		if has {
			continue
		}
		if err := cfg.Engine.MakePart(ctx, p, "", l.identity(sandbox.RoleVerb, 0)); err != nil {
			return nil, undo(err)
		}
		made = append(made, p)
	}
	needs := Needs{RootKeys: true, WriteKeys: true, LedgerKeys: true, Ledger: readWrite}
	if err := l.verb(ctx, []string{"init"}, needs, nil, answer); err != nil {
		return nil, undo(err)
	}
	if err := cfg.Home.RaiseAnchor(place.Engine, answer.Anchor); err != nil {
		return nil, undo(err)
	}
	if err := cfg.Home.SetConfig(place); err != nil {
		return nil, undo(err)
	}
	return l, nil
}

// Join takes keys and control that are there already, as they are now: what the
// launcher remembers begins with that.
func Join(ctx context.Context, cfg Config, place home.Config, answer *wire.KeysReply) error {
	l, err := open(ctx, cfg, place)
	if err != nil {
		return err
	}
	if err := l.Restored(ctx, answer); err != nil {
		return err
	}
	if err := cfg.Home.RaiseAnchor(place.Engine, answer.Anchor); err != nil {
		return err
	}
	return cfg.Home.SetConfig(place)
}

// LedgerWrite and LedgerRead name how a verb needs the ledger.
const (
	LedgerRead  = readOnly
	LedgerWrite = readWrite
)

// KeysVerb runs rotate or keys, and raises the anchor to what it answers:
// these are the acts that change who is trusted.
func (l *Launcher) KeysVerb(ctx context.Context, argv []string, n Needs, answer *wire.KeysReply) error {
	if err := l.Verb(ctx, argv, n, nil, answer); err != nil {
		return err
	}
	return l.cfg.Home.RaiseAnchor(l.place.Engine, answer.Anchor)
}

// Log writes a session's record, row by row. With follow it goes on until ctx
// ends.
func (l *Launcher) Log(ctx context.Context, id string, follow bool, w io.Writer) error {
	if _, ok := l.cfg.Engine.(sandbox.Whole); ok {
		return l.keptLog(id, w)
	}
	argv := []string{"log"}
	var in *os.File
	if follow {
		argv = append(argv, "--follow")
		pipe, release, err := lifeline()
		if err != nil {
			return err
		}
		defer release()
		in = pipe
	}
	spec := l.spec("v"+strings.ToLower(rand.Text()[:11]), sandbox.RoleVerb, argv, l.part(sandbox.PartSession, id, readOnly))
	_, err := l.runStep(ctx, spec, in, w)
	return err
}

// Metrics writes the numbers of a session that runs, in Prometheus' text format.
func (l *Launcher) Metrics(ctx context.Context, id string, w io.Writer) error {
	spec := l.spec("v"+strings.ToLower(rand.Text()[:11]), sandbox.RoleVerb, []string{"metrics"}, l.part(sandbox.PartSession, id, readOnly))
	_, err := l.runStep(ctx, spec, nil, w)
	return err
}
