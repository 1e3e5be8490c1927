package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sandbox/userns"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// lockRetry is how often a lock that another process holds is tried again.
const lockRetry = 50 * time.Millisecond

// ErrUnknownWrites says that an apply ended without an answer: what it wrote is
// not known, and applying again completes it.
var ErrUnknownWrites = errors.New("what was written is not known")

// Sealed is what a verified seal says about the bytes to apply.
type Sealed struct {
	Envelope       []byte
	BaselineSHA256 string
	ManifestSHA256 string
}

// Apply brings a session's sealed changes into the product, under the product's
// lock. The caller verified the seal's signature; the ledger says here whether
// it is the newest and still holds.
func (l *Launcher) Apply(ctx context.Context, id string, s Sealed) (wire.ApplyReply, error) {
	var reply wire.ApplyReply
	host, err := l.cfg.Home.Lock(ctx, id)
	if err != nil {
		return reply, err
	}
	defer func() { _ = host.Unlock() }()
	product := string(host.State.Product)
	unlock, err := lockProduct(ctx, product)
	if err != nil {
		return reply, err
	}
	defer unlock()
	var check wire.ApplyCheck
	needs := Needs{LedgerKeys: true, Ledger: LedgerRead}
	if err := l.Verb(ctx, []string{"check-apply"}, needs, bytes.NewReader(s.Envelope), &check); err != nil {
		return reply, err
	}
	if err := l.cfg.Home.RaiseAnchor(l.place.Engine, check.Anchor); err != nil {
		return reply, err
	}
	if reply, err = l.applyChild(ctx, host, product, s); err != nil {
		return reply, err
	}
	if reply.Error == "" {
		host.State.Applied = true
		return reply, host.Save()
	}
	return reply, nil
}

// lockProduct lets one apply at a time touch a product, whichever home it comes
// from: the lock is on the product's directory itself.
func lockProduct(ctx context.Context, product string) (func(), error) {
	lock := flock.New(product, flock.SetFlag(os.O_RDONLY))
	if ok, err := lock.TryLockContext(ctx, lockRetry); err != nil || !ok {
		return nil, fmt.Errorf("lock %s for apply: %w", product, err)
	}
	return func() { _ = lock.Unlock() }, nil
}

func (l *Launcher) applyChild(ctx context.Context, host *home.Session, product string, s Sealed) (wire.ApplyReply, error) {
	var reply wire.ApplyReply
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	// A stage may be closed to an ordinary user, its parent to the child of a
	// root launcher: one of the two can be handed over.
	at, name := host.Stage(), "."
	if f, err := os.Open(at); err == nil {
		_ = f.Close()
	} else {
		at, name = host.StageParent(), filepath.Base(at)
	}
	for _, p := range []string{product, at, host.Path("baseline.stream"), l.cfg.Home.ManifestPath(host.ID)} {
		f, err := os.Open(p)
		if err != nil {
			return reply, fmt.Errorf("apply: %w", err)
		}
		files = append(files, f)
	}
	owner, err := ownerOf(files[0])
	if err != nil {
		return reply, err
	}
	actor, err := actorOver(files[0])
	if err != nil {
		return reply, err
	}
	if actor.UID != owner.UID {
		return reply, fmt.Errorf("apply: %s belongs to the user %d: its owner, or root, can apply", product, owner.UID)
	}
	id := l.identity(sandbox.RoleAgent, host.State.Block)
	var out bytes.Buffer
	stderr := newTail(64 << 10)
	err = l.cfg.InUserNS(ctx, Child{
		Argv: []string{
			filepath.Join(l.cfg.Tools, "proctor-sidecar"), "apply", "--stage-name", name,
			"--baseline-sha256", s.BaselineSHA256, "--manifest-sha256", s.ManifestSHA256,
		},
		Owner: actor, Stage: IDs{id.Host, id.Host}, Stdout: limited{&out, wire.MaxLine}, Stderr: stderr, Files: files,
	})
	if err != nil {
		return reply, applyError(ctx, err, stderr)
	}
	said := &stepAnswer{}
	if _, err := said.Write(out.Bytes()); err != nil {
		return reply, errors.Join(ErrUnknownWrites, err)
	}
	if err := said.read(&reply); err != nil {
		return reply, errors.Join(ErrUnknownWrites, err)
	}
	return reply, nil
}

// applyError tells a child that refused, and wrote nothing, from one that ended
// somewhere on its way.
func applyError(ctx context.Context, err error, stderr *tail) error {
	said := childError("apply", err, stderr)
	var exit *userns.ExitError
	refused := errors.As(err, &exit) && exit.Code == 2
	never := exit == nil && ctx.Err() == nil
	if refused || never {
		return said
	}
	return errors.Join(ErrUnknownWrites, said)
}
