package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/parts"
)

// A launcher that is killed cannot remove what it has made: a container that
// was made and not started would wait for ever, because nobody else knows of
// it. So the launcher has a watcher: its own program again, in a session of its
// own, at the reading end of a pipe whose only writer is the launcher, which
// tells it each container before it makes it. At the pipe's end the watcher
// removes those of them that carry the launcher's token.

// nameWatch is the argv[0] of a watcher: STATE RUNC RUNSC TOKEN.
const nameWatch = "proctor-local-watch"

// A bundle says by one file's name how far its container came, and by that
// file's content whose it is.
const (
	fileMade    = "made-by"
	fileStarted = "started-by"
)

// watcherGrace is how long what a lost launcher had started may take to end by
// itself, as everything does whose standard input ends.
const watcherGrace = 10 * time.Second

// watcher is the launcher's end.
type watcher struct {
	token string

	mu     sync.Mutex
	alive  *os.File // SESSION/NAME LF; its end is the launcher's
	cmd    *exec.Cmd
	closed bool
}

// watch has a container watched that is about to be made.
func (e *Engine) watch(spec sandbox.Spec) error {
	w := &e.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errors.New("the engine is closed")
	}
	if e.cfg.Self == "" {
		return nil
	}
	if w.cmd == nil {
		if err := e.startWatcher(); err != nil {
			return fmt.Errorf("start the watcher: %w", err)
		}
	}
	if _, err := w.alive.WriteString(spec.Session + "/" + spec.Name + "\n"); err != nil {
		return fmt.Errorf("tell the watcher: %w", err)
	}
	return nil
}

func (e *Engine) startWatcher() error {
	w := &e.watcher
	r, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.Command(e.cfg.Self)
	cmd.Args = []string{nameWatch, e.cfg.State, e.cfg.Runc, e.cfg.Runsc, w.token}
	cmd.Env, cmd.Dir, cmd.Stdin = []string{"GOMAXPROCS=1"}, "/", r
	// Whatever is sent to the launcher's group or terminal is not meant for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, alive.Close())
	}
	w.alive, w.cmd = alive, cmd
	return nil
}

// Close ends the watcher, which removes what is left of this engine's
// containers. Idempotent.
func (e *Engine) Close() error {
	w := &e.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.cmd == nil {
		return nil
	}
	err := errors.Join(w.alive.Close(), w.cmd.Wait())
	w.cmd = nil
	if err != nil {
		return fmt.Errorf("engine local: watcher: %w", err)
	}
	return nil
}

func newToken() string { return rand.Text() }

// Child does the work of a watcher and reports true, or reports false at once
// when args are not those of one. The program that is Config.Self calls it
// first thing in main.
func Child(args []string) (code int, ok bool) {
	if len(args) != 5 || args[0] != nameWatch {
		return 0, false
	}
	told, err := io.ReadAll(os.Stdin)
	e, newErr := New(Config{Home: "/", State: args[1], Runc: args[2], Runsc: args[3]})
	err = errors.Join(err, newErr)
	if newErr == nil {
		o := orphans{engine: e, token: args[4], told: strings.Fields(string(told))}
		err = errors.Join(err, o.remove(context.Background(), watcherGrace))
	}
	if err != nil {
		return 1, true
	}
	return 0, true
}

// orphans are the containers that a launcher has told its watcher.
type orphans struct {
	engine *Engine
	token  string
	told   []string // SESSION/NAME
}

// remove removes them: at once those that never ran, and the others when they
// have ended, or after the grace.
func (o *orphans) remove(ctx context.Context, grace time.Duration) error {
	err := o.removeThose(ctx, fileMade)
	deadline := time.Now().Add(grace)
	for _, name := range o.told {
		if pid, err := readPid(filepath.Join(o.dir(name), "pid")); err == nil && o.signed(name, fileStarted) {
			awaitEnd(pid, deadline)
		}
	}
	return errors.Join(err, o.removeThose(ctx, fileStarted))
}

func (o *orphans) dir(name string) string {
	return filepath.Join(o.engine.cfg.State, "sessions", filepath.FromSlash(name))
}

// signed says whether the bundle is this launcher's, and came that far.
func (o *orphans) signed(name, file string) bool {
	b, err := os.ReadFile(filepath.Join(o.dir(name), file))
	return err == nil && string(b) == o.token
}

// removeThose holds the lock from the look at a bundle to its removal: only a
// sweep removes what another launcher has made, so that what is removed is what
// was looked at, and not a later container of the same name.
func (o *orphans) removeThose(ctx context.Context, file string) error {
	unlock, err := o.engine.lockSweep(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	for _, name := range o.told {
		session, container, _ := strings.Cut(name, "/")
		if o.signed(name, file) {
			errs = append(errs, o.engine.removeOrphan(ctx, session, container))
			continue
		}
		_ = os.Remove(o.dir(name)) // empty, where the launcher was killed before it could sign
		o.engine.removeIfEmpty(session, "runc")
	}
	return errors.Join(errs...)
}

func (e *Engine) removeOrphan(ctx context.Context, session, name string) error {
	errs := []error{e.sweepOne(ctx, session, name)}
	if group := cgroup.Session(session); group != "" {
		group += "/" + name
		errs = append(errs, cgroup.Kill(ctx, group), cgroup.Remove(group))
	}
	// The runtime itself may be gone by now, and with it whoever else would.
	errs = append(errs, parts.RemoveTree(ctx, filepath.Join(e.runtimeRoot(session, "runc"), name)))
	errs = append(errs, parts.RemoveTree(ctx, filepath.Join(e.sessionDir(session), name)))
	for _, runtime := range []string{"runc", "runsc"} {
		e.removeIfEmpty(session, runtime)
	}
	return errors.Join(errs...)
}

// awaitEnd returns when the process has ended, or at the deadline.
func awaitEnd(pid int, deadline time.Time) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for {
		left := time.Until(deadline).Milliseconds()
		if left <= 0 {
			return
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left))
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// sign makes a new bundle this engine's.
func (e *Engine) sign(bundle string) error {
	return os.WriteFile(filepath.Join(bundle, fileMade), []byte(e.watcher.token), 0o600)
}

// signStarted says that the bundle's container runs. Where that fails, a
// launcher that is killed has it ended at once, and not after a grace.
func (b *bundle) signStarted() {
	_ = os.Rename(filepath.Join(b.dir, fileMade), filepath.Join(b.dir, fileStarted))
}

// lockSweep is held by whoever removes containers that it has not made itself.
func (e *Engine) lockSweep(ctx context.Context) (unlock func(), err error) {
	lock := flock.New(filepath.Join(e.cfg.State, "sweep.lock"), flock.SetPermissions(fs.FileMode(0o600)))
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return nil, fmt.Errorf("lock the sweep: %w", err)
	}
	return func() { _ = lock.Unlock() }, nil
}
