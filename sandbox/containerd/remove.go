package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/gvisor"
	"github.com/proctor-project/proctor/sandbox/layer"
)

// removeContainer ends a container's task and removes it with its snapshot. It
// returns when the daemon knows neither.
func (e *Engine) removeContainer(ctx context.Context, c client.Container, session string) error {
	task, err := c.Task(ctx, nil)
	if err == nil {
		err = endTask(ctx, task, cgroup.Session(session))
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("end the task: %w", err)
	}
	if err := c.Delete(ctx, client.WithSnapshotCleanup); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	if _, err := e.api.LoadContainer(ctx, c.ID()); !errdefs.IsNotFound(err) {
		return errors.Join(err, errors.New("the daemon still has it"))
	}
	return nil
}

// endDeadline bounds how long a process that could not be signalled may take to
// be gone, and a runtime to signal it.
const endDeadline = 10 * time.Second

// endTask kills a task, whether it runs or was only created, and deletes it.
// What is in its cgroup the kernel kills, below the session's: runsc would ask
// gVisor's kernel, which runs the payload's system calls, to end itself.
func endTask(ctx context.Context, task client.Task, session string) error {
	ended, err := task.Wait(ctx)
	if err != nil {
		return err
	}
	if session != "" {
		if err := cgroup.Kill(ctx, session+"/"+task.ID()); err != nil {
			return err
		}
	}
	killErr := task.Kill(ctx, unix.SIGKILL)
	if killErr != nil && !gone(killErr) {
		// runsc has its own words for what is gone.
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, endDeadline)
		defer cancel()
	}
	select {
	case status := <-ended:
		if err := status.Error(); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	case <-ctx.Done():
		return errors.Join(ctx.Err(), killErr)
	}
	_, err = task.Delete(ctx)
	return err
}

// clearPlace removes a container's own directory with what is mounted in it.
func (e *Engine) clearPlace(dir string) error {
	layers, err := filepath.Glob(filepath.Join(dir, "layer*"))
	errs := []error{err, unmountPlaces(dir)}
	for _, l := range layers {
		errs = append(errs, layer.Layer{Dir: l}.Discard())
	}
	if err := errors.Join(errs...); err != nil {
		return err // else a walk would go into what is mounted there
	}
	gvisor.RemoveLeftovers(e.runscRoot(dir))
	return os.RemoveAll(dir)
}

// removeIfEmpty removes what the session's containers shared, with the last of
// them.
func (e *Engine) removeIfEmpty(session string) {
	e.shape.Lock()
	defer e.shape.Unlock()
	_ = os.Remove(e.sessionDir(session))
	dirs, _ := cgroup.Dirs(cgroup.Session(session))
	for _, dir := range dirs {
		_ = os.Remove(dir)
	}
}

// Sweep removes every container of the session, and what a launcher that was
// killed half-way has left of one. Parts stay: they hold the session's record.
func (e *Engine) Sweep(ctx context.Context, session string) ([]string, error) {
	if !sandbox.ValidSession(session) {
		return nil, fmt.Errorf("sweep: %q is not a session id", session)
	}
	if _, err := e.ask(ctx); err != nil {
		return nil, err
	}
	ours := fmt.Sprintf("labels.%q==%s,labels.%q==%s", labelSession, session, labelPlace, e.cfg.Place)
	list, err := e.api.Containers(ctx, ours)
	if err != nil {
		return nil, fmt.Errorf("sweep session %q: %w", session, err)
	}
	var removed []string
	var errs []error
	for _, c := range list {
		if err := e.removeContainer(ctx, c, session); err != nil {
			errs = append(errs, fmt.Errorf("sweep container %q: %w", c.ID(), err))
			continue
		}
		removed = append(removed, c.ID())
	}
	errs = append(errs, e.sweepSnapshots(ctx, ours), e.sweepHost(ctx, session))
	return removed, errors.Join(errs...)
}

// sweepSnapshots removes those that never became a container's.
func (e *Engine) sweepSnapshots(ctx context.Context, ours string) error {
	store := e.api.SnapshotService("")
	var keys []string
	err := store.Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		keys = append(keys, info.Name)
		return nil
	}, ours)
	errs := []error{err}
	for _, key := range keys {
		if err := store.Remove(ctx, key); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("sweep snapshot %q: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// sweepHost removes the session's cgroups and directories. What still runs in
// them is nobody's.
func (e *Engine) sweepHost(ctx context.Context, session string) error {
	group := cgroup.Session(session)
	errs := []error{cgroup.Kill(ctx, group), cgroup.Remove(group)}
	entries, err := os.ReadDir(e.sessionDir(session))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, entry := range entries {
		errs = append(errs, e.clearPlace(filepath.Join(e.sessionDir(session), entry.Name())), os.RemoveAll(e.runcState(entry.Name())))
	}
	e.removeIfEmpty(session)
	return errors.Join(errs...)
}

// runcState is where runc keeps what it knows of a container.
func (e *Engine) runcState(name string) string {
	return filepath.Join(e.cfg.Home, "runc", e.cfg.Namespace, name)
}
