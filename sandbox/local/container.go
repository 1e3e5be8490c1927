package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
)

// container is one created container. Its first process is a child of this one.
type container struct {
	engine  *Engine
	bundle  *bundle
	runtime *invocation
	io      streams
	pid     int

	pidfdMu sync.Mutex
	pidfd   *os.File // no other process can ever be meant by it; nil once removed
	report  sandbox.Report

	mu      sync.Mutex
	started time.Time

	done    chan struct{} // closed when exit and waitErr are final
	exit    sandbox.Exit
	waitErr error

	remove  sync.Mutex
	removed bool
}

func (c *container) Name() string           { return c.bundle.spec.Name }
func (c *container) Report() sandbox.Report { return c.report }

// Start lets the payload run.
func (c *container) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd == nil || !c.started.IsZero() {
		return fmt.Errorf("start container %q: it was started or removed before", c.Name())
	}
	c.started = time.Now()
	release := c.releaseRunc
	if c.bundle.onRunsc() {
		release = func(ctx context.Context) error { return c.runtime.start(ctx, c.Name()) }
	}
	if err := release(ctx); err != nil {
		return fmt.Errorf("start container %q: %w%s", c.Name(), err, c.bundle.logged())
	}
	c.bundle.signStarted()
	return nil
}

// reap waits for the first process, with which the kernel kills the rest of the
// pid namespace, and for the delivery of what they wrote. An error of the streams ends the container: nobody would hear of it.
func (c *container) reap(streamErr error) {
	defer close(c.done)
	if streamErr != nil {
		_ = c.signal(unix.SIGKILL)
	}
	var ws unix.WaitStatus
	var err error
	for {
		if _, err = unix.Wait4(c.pid, &ws, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	finished := time.Now()
	oom, oomErr := cgroup.OOMKilled(cgroup.Of(c.bundle.spec))
	outErr := c.io.drained()
	c.mu.Lock()
	started := c.started
	c.mu.Unlock()
	c.exit = sandbox.Exit{Code: ws.ExitStatus(), OOM: oom, Started: started, Finished: finished}
	if ws.Signaled() {
		c.exit.Signal = int(ws.Signal())
		c.exit.Code = 128 + c.exit.Signal
	}
	if err := errors.Join(streamErr, err, oomErr, outErr); err != nil {
		c.waitErr = fmt.Errorf("wait for container %q: %w", c.Name(), err)
	}
}

// Wait blocks until the first process has ended and its output was delivered.
func (c *container) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-c.done:
		return c.exit, c.waitErr
	case <-ctx.Done():
		return sandbox.Exit{}, fmt.Errorf("wait for container %q: %w", c.Name(), ctx.Err())
	}
}

// signal reaches the first process, or nobody when that is gone.
func (c *container) signal(s unix.Signal) error {
	c.pidfdMu.Lock()
	defer c.pidfdMu.Unlock()
	if c.pidfd == nil {
		return nil // it was removed
	}
	if err := unix.PidfdSendSignal(int(c.pidfd.Fd()), s, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal container %q: %w", c.Name(), err)
	}
	return nil
}

// Kill sends SIGKILL to the first process, with which all others end.
func (c *container) Kill(context.Context) error { return c.signal(unix.SIGKILL) }

// minHearing is how long gVisor's kernel may take to hear of a signal, at least.
const minHearing = time.Second

// terminate asks the payload to end. gVisor's kernel, which the engine sees in
// its place, does not pass on a signal of its own.
func (c *container) terminate(ctx context.Context) error {
	if !c.bundle.onRunsc() {
		return c.signal(unix.SIGTERM)
	}
	select {
	case <-c.done:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, max(c.bundle.spec.Grace, minHearing))
	defer cancel()
	if err := c.runtime.signal(ctx, c.Name(), unix.SIGTERM); err != nil {
		return c.signal(unix.SIGKILL) // it ended meanwhile, or answers nobody
	}
	return nil
}

// Stop sends SIGTERM, and SIGKILL when the grace is over or the context ends.
func (c *container) Stop(ctx context.Context) error {
	if err := c.terminate(ctx); err != nil {
		return err
	}
	grace := time.NewTimer(c.bundle.spec.Grace)
	defer grace.Stop()
	select {
	case <-c.done:
		return nil
	case <-grace.C:
	case <-ctx.Done():
	}
	return c.signal(unix.SIGKILL)
}

// Remove returns when nothing of the container is left.
func (c *container) Remove(ctx context.Context) error {
	c.remove.Lock()
	defer c.remove.Unlock()
	if c.removed {
		return nil
	}
	if err := c.signal(unix.SIGKILL); err != nil {
		return err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return fmt.Errorf("remove container %q: %w", c.Name(), ctx.Err())
	}
	if err := c.discard(ctx); err != nil {
		return fmt.Errorf("remove container %q: %w", c.Name(), err)
	}
	c.removed = true
	return nil
}

// discard removes the runtime's state, the cgroup and the files of a container
// whose first process is gone or was never there.
func (c *container) discard(ctx context.Context) error {
	if c.io != nil {
		c.io.close()
	}
	halfMade := c.pidfd == nil
	errs := []error{c.discardState(ctx)}
	c.mu.Lock() // a Start that is under way uses it
	defer c.mu.Unlock()
	c.pidfdMu.Lock()
	if c.pidfd != nil {
		_ = c.pidfd.Close()
		c.pidfd = nil
	}
	c.pidfdMu.Unlock()
	if halfMade {
		// The runtime failed or was stopped half-way; what it had started is in
		// the cgroup, or has the bundle as its root.
		errs = append(errs, cgroup.Kill(ctx, cgroup.Of(c.bundle.spec)), c.engine.killRootedIn(c.bundle.dir))
	}
	errs = append(errs, cgroup.Remove(cgroup.Of(c.bundle.spec)))
	errs = append(errs, c.engine.removeBundle(ctx, c.bundle))
	return errors.Join(errs...)
}
