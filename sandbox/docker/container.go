package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
)

const (
	// deliverDeadline bounds how long output may still come after the end.
	deliverDeadline = 10 * time.Second
	// goneTick is how often a removal in progress is looked at.
	goneTick = 20 * time.Millisecond
)

// Container is one container of the daemon.
type Container struct {
	engine  *Engine
	id      string
	spec    sandbox.Spec
	streams sandbox.Streams
	report  sandbox.Report
	layers  []overlay

	mu  sync.Mutex
	run *run // set by Start
}

// run is a started container.
type run struct {
	done chan struct{} // closed when exit and err are final
	exit sandbox.Exit
	err  error
	// process is a pidfd of the container's first process, or -1.
	process atomic.Int64
}

// Name is the container's name on the daemon.
func (c *Container) Name() string { return c.spec.Name }

// Report is what the daemon made, from its inspection.
func (c *Container) Report() sandbox.Report { return c.report }

// Start attaches, registers for the end, starts, and holds what the kernel says
// about the process against the spec. A difference kills it and is a refusal.
func (c *Container) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run != nil {
		return fmt.Errorf("start container %q: it was started before", c.spec.Name)
	}
	io, err := c.attach(ctx)
	if err != nil {
		return fmt.Errorf("start container %q: %w", c.spec.Name, err)
	}
	// The wait outlives this call; the daemon ends it with the container.
	waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := c.engine.api.ContainerWait(waiting, c.id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := c.engine.api.ContainerStart(ctx, c.id, client.ContainerStartOptions{}); err != nil {
		cancel()
		io.close()
		return fmt.Errorf("start container %q: %w", c.spec.Name, err)
	}
	r := &run{done: make(chan struct{})}
	r.process.Store(-1)
	c.run = r
	checked := make(chan struct{})
	go c.engine.cfg.Crash.Guard(func() {
		defer cancel()
		defer close(r.done)
		r.exit, r.err = c.follow(waiting, ended, io)
		<-checked
		if r.err != nil {
			r.endOrphan()
		}
		r.release()
	})()
	defer close(checked)
	if err := c.checkProcess(ctx); err != nil {
		return errors.Join(err, c.Kill(context.WithoutCancel(ctx)))
	}
	return nil
}

// follow delivers the streams and returns how the container ended.
func (c *Container) follow(ctx context.Context, ended client.ContainerWaitResult, io *attached) (sandbox.Exit, error) {
	io.start()
	var exit sandbox.Exit
	select {
	case res := <-ended.Result:
		exit.Code = int(res.StatusCode)
		if res.Error != nil {
			io.close()
			return exit, fmt.Errorf("wait for container %q: %s", c.spec.Name, res.Error.Message)
		}
	case err := <-ended.Error:
		io.close()
		return exit, fmt.Errorf("wait for container %q: %w", c.spec.Name, err)
	}
	delivered := io.finish(deliverDeadline)
	got, err := c.engine.api.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
	if err != nil {
		return exit, errors.Join(delivered, fmt.Errorf("inspect ended container %q: %w", c.spec.Name, err))
	}
	if err := settle(&exit, got.Container.State); err != nil {
		return exit, fmt.Errorf("container %q: %w", c.spec.Name, err)
	}
	if delivered != nil {
		return exit, fmt.Errorf("deliver output of container %q: %w", c.spec.Name, delivered)
	}
	return exit, nil
}

// settle completes the exit from the inspection, which must agree with it. The
// daemon reports a signal as 128+number, as it does such an exit code.
func settle(exit *sandbox.Exit, state *container.State) error {
	switch {
	case state == nil || state.Status != container.StateExited:
		return errors.New("the daemon says that it ended and that it did not")
	case state.ExitCode != exit.Code:
		return fmt.Errorf("the daemon reports the exit codes %d and %d", exit.Code, state.ExitCode)
	case state.Error != "":
		return fmt.Errorf("the daemon reports: %s", state.Error)
	}
	exit.OOM = state.OOMKilled
	if exit.Code > 128 && exit.Code <= 128+64 {
		exit.Signal = exit.Code - 128
	}
	var errs [2]error
	exit.Started, errs[0] = time.Parse(time.RFC3339Nano, state.StartedAt)
	exit.Finished, errs[1] = time.Parse(time.RFC3339Nano, state.FinishedAt)
	if exit.Started.After(exit.Finished) {
		// The daemon notes the start when the runtime has returned, which may
		// be after the end of a short process.
		exit.Started = exit.Finished
	}
	return errors.Join(errs[:]...)
}

func (c *Container) started() *run {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.run
}

// Wait blocks until the container has ended and its output was delivered.
func (c *Container) Wait(ctx context.Context) (sandbox.Exit, error) {
	r := c.started()
	if r == nil {
		return sandbox.Exit{}, fmt.Errorf("wait for container %q: it was not started", c.spec.Name)
	}
	select {
	case <-r.done:
		return r.exit, r.err
	case <-ctx.Done():
		return sandbox.Exit{}, fmt.Errorf("wait for container %q: %w", c.spec.Name, ctx.Err())
	}
}

// Stop sends SIGTERM, and SIGKILL when the spec's grace is over. It returns
// when the container has ended.
func (c *Container) Stop(ctx context.Context) error {
	r := c.started()
	if r == nil {
		return nil
	}
	if err := c.signal(ctx, "SIGTERM"); err != nil {
		return err
	}
	grace := time.NewTimer(c.spec.Grace)
	defer grace.Stop()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop container %q: %w", c.spec.Name, ctx.Err())
	case <-grace.C:
	}
	if err := c.signal(ctx, "SIGKILL"); err != nil {
		return err
	}
	_, err := c.Wait(ctx)
	if ctx.Err() != nil {
		return err
	}
	return nil
}

// Kill sends SIGKILL and does not wait.
func (c *Container) Kill(ctx context.Context) error { return c.signal(ctx, "SIGKILL") }

// signal is nil when there is nothing left to signal.
func (c *Container) signal(ctx context.Context, name string) error {
	_, err := c.engine.api.ContainerKill(ctx, c.id, client.ContainerKillOptions{Signal: name})
	if err == nil || gone(err) || errdefs.IsConflict(err) {
		return nil // a conflict says "is not running"
	}
	return fmt.Errorf("signal container %q: %w", c.spec.Name, err)
}

// Remove kills what is left, removes the container with its layers, and returns
// when the daemon says that it does not exist. The first process is the first
// of a pid namespace: the kernel ends every other one before it counts as
// ended (pid_namespaces(7)), so also a daemon that ignores SIGTERM.
func (c *Container) Remove(ctx context.Context) error {
	if r := c.started(); r != nil {
		if err := c.Kill(ctx); err != nil {
			return err
		}
		if _, err := c.Wait(ctx); err != nil && ctx.Err() != nil {
			return err
		}
	}
	if err := c.engine.removeContainer(ctx, c.id); err != nil {
		return fmt.Errorf("remove container %q: %w", c.spec.Name, err)
	}
	if err := c.engine.dropLayers(ctx, c.layers); err != nil {
		return fmt.Errorf("remove container %q: %w", c.spec.Name, err)
	}
	return nil
}

// removeContainer returns when the daemon answers that there is no such container.
func (e *Engine) removeContainer(ctx context.Context, id string) error {
	_, err := e.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !gone(err) && !errdefs.IsConflict(err) {
		return err // a conflict says that another removal is in progress
	}
	tick := time.NewTicker(goneTick)
	defer tick.Stop()
	for {
		_, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		switch {
		case gone(err):
			return nil
		case err != nil:
			return fmt.Errorf("confirm that it is gone: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("confirm that it is gone: %w", ctx.Err())
		case <-tick.C:
		}
	}
}
