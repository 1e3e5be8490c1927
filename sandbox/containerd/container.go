package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
)

// deliverDeadline bounds how long output may still come after the end.
const deliverDeadline = 10 * time.Second

// Container is one container of the daemon, with its task.
type Container struct {
	engine *Engine
	*request
	container client.Container // nil until it is made
	task      client.Task      // nil until it is made
	io        *streams
	report    sandbox.Report
	before    []byte // what the first process's arguments were before the payload's

	mu      sync.Mutex
	started time.Time
	pidfd   int // of the first process, or -1

	done    chan struct{} // closed when exit and waitErr are final
	exit    sandbox.Exit
	waitErr error

	remove  sync.Mutex
	removed bool
}

var _ sandbox.Container = (*Container)(nil)

// Name is the container's id on the daemon.
func (c *Container) Name() string { return c.spec.Name }

// Report is what was made, read back at Create.
func (c *Container) Report() sandbox.Report { return c.report }

func (c *Container) pid() int { return int(c.task.Pid()) }

// follow takes over the streams and waits for the end in the background. The
// payload cannot run before.
func (c *Container) follow(ctx context.Context) error {
	// The wait outlives this call; the daemon ends it with the container.
	ended, err := c.task.Wait(context.WithoutCancel(ctx))
	if err == nil {
		err = errors.Join(c.hold(), c.io.start(ctx, c.task))
	}
	if err != nil {
		c.io.close()
		close(c.done)
		return fmt.Errorf("create container %q: %w", c.spec.Name, err)
	}
	go c.engine.cfg.Crash.Guard(func() {
		defer close(c.done)
		c.exit, c.waitErr = c.await(<-ended)
		if c.waitErr != nil {
			// The daemon may be gone: its containers go on without it.
			c.kill()
		}
	})()
	return nil
}

// hold keeps a handle on the first process, which no other can ever be meant by.
func (c *Container) hold() error {
	fd, err := unix.PidfdOpen(c.pid(), 0)
	if err != nil {
		return fmt.Errorf("open pidfd of the first process: %w", err)
	}
	c.pidfd = fd
	// The number could have been given to another process before it was opened.
	group, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.pid()), "cgroup"))
	if err != nil || !bytes.Contains(group, []byte(cgroup.Of(c.spec)+"\n")) {
		return errors.Join(err, errors.New("the first process is not in the container's cgroup"))
	}
	c.before, err = os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.pid()), "cmdline"))
	return err
}

// await delivers the rest of the streams and says how the container ended.
func (c *Container) await(status client.ExitStatus) (sandbox.Exit, error) {
	code, finished, err := status.Result()
	if err != nil {
		c.io.close()
		return sandbox.Exit{}, fmt.Errorf("wait for container %q: %w", c.spec.Name, err)
	}
	// Its cgroup is there until the task is deleted.
	oom, oomErr := cgroup.OOMKilled(cgroup.Of(c.spec))
	delivered := c.io.finish(deliverDeadline)
	c.mu.Lock()
	exit := sandbox.Exit{Code: int(code), OOM: oom, Started: c.started, Finished: finished}
	c.mu.Unlock()
	// The shim reports a signal as 128+number, as it does such an exit code.
	if exit.Code > 128 && exit.Code <= 128+64 {
		exit.Signal = exit.Code - 128
	}
	if exit.Started.After(exit.Finished) {
		exit.Started = exit.Finished // the clocks are read in two processes
	}
	if err := errors.Join(oomErr, delivered); err != nil {
		return exit, fmt.Errorf("wait for container %q: %w", c.spec.Name, err)
	}
	return exit, nil
}

// Start lets the payload run, and holds what the kernel says about it then
// against the spec. A difference kills it and is a refusal.
func (c *Container) Start(ctx context.Context) error {
	if err := c.start(ctx); err != nil {
		return fmt.Errorf("start container %q: %w", c.spec.Name, err)
	}
	if err := c.checkProcess(ctx); err != nil {
		return errors.Join(err, c.Kill(context.WithoutCancel(ctx)))
	}
	return nil
}

func (c *Container) start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started.IsZero() || c.pidfd < 0 {
		return errors.New("it was started or removed before")
	}
	c.started = time.Now()
	return c.task.Start(ctx)
}

// Wait blocks until the container has ended and its output was delivered.
func (c *Container) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-c.done:
		return c.exit, c.waitErr
	case <-ctx.Done():
		return sandbox.Exit{}, fmt.Errorf("wait for container %q: %w", c.spec.Name, ctx.Err())
	}
}

// Stop sends SIGTERM, and SIGKILL when the spec's grace is over or the context
// ends.
func (c *Container) Stop(ctx context.Context) error {
	if err := c.signal(ctx, unix.SIGTERM); err != nil {
		if onRunsc(c.spec) {
			return c.Kill(ctx) // gVisor's kernel does not hear
		}
		return err
	}
	grace := time.NewTimer(c.spec.Grace)
	defer grace.Stop()
	select {
	case <-c.done:
		return nil
	case <-grace.C:
	case <-ctx.Done():
	}
	return c.Kill(context.WithoutCancel(ctx))
}

// Kill sends SIGKILL to the first process, with which all others end.
func (c *Container) Kill(ctx context.Context) error {
	if onRunsc(c.spec) {
		c.kill() // gVisor's kernel, which would be asked, may not answer
		return nil
	}
	return c.signal(ctx, unix.SIGKILL)
}

// signal is nil when there is nothing left to signal.
func (c *Container) signal(ctx context.Context, s syscall.Signal) error {
	ctx, cancel := context.WithTimeout(ctx, endDeadline)
	defer cancel()
	err := c.task.Kill(ctx, s)
	if err == nil || gone(err) {
		return nil
	}
	// runsc has its own words for what is gone.
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	return fmt.Errorf("signal container %q: %w", c.spec.Name, err)
}

// gone reports whether an error says that there is no such container, or no
// process in it any more.
func gone(err error) bool { return errdefs.IsNotFound(err) || errdefs.IsFailedPrecondition(err) }

// kill ends the first process without the daemon.
func (c *Container) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd >= 0 {
		_ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
	}
}

// Remove kills what is left and returns when nothing of the container is there.
// The first process is the first of a pid namespace: the kernel ends every other
// one before it counts as ended (pid_namespaces(7)), so also a daemon that
// ignores SIGTERM.
func (c *Container) Remove(ctx context.Context) error {
	c.remove.Lock()
	defer c.remove.Unlock()
	if c.removed {
		return nil
	}
	if err := c.discard(ctx); err != nil {
		return fmt.Errorf("remove container %q: %w", c.spec.Name, err)
	}
	c.removed = true
	return nil
}

// discard removes a container whatever came of it.
func (c *Container) discard(ctx context.Context) error {
	var errs []error
	if c.container != nil {
		if err := c.engine.removeContainer(ctx, c.container, c.spec.Session); err != nil {
			return err
		}
	}
	if c.task != nil {
		select {
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	} else if c.io != nil {
		c.io.close()
	}
	c.mu.Lock()
	if c.pidfd >= 0 {
		_ = unix.Close(c.pidfd)
		c.pidfd = -1
	}
	c.mu.Unlock()
	if c.task == nil {
		errs = append(errs, cgroup.Kill(ctx, cgroup.Of(c.spec))) // a runtime that failed half-way
	}
	errs = append(errs, c.engine.clearPlace(c.place.dir), cgroup.Remove(cgroup.Of(c.spec)))
	c.engine.removeIfEmpty(c.spec.Session)
	return errors.Join(errs...)
}
