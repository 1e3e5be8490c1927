package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	runc "github.com/containerd/go-runc"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/kernel"
	"github.com/proctor-project/proctor/sandbox/parts"
)

// Sweep removes what a launcher that is gone has left of a session: its
// containers, whatever phase of their making they were in, with their cgroups
// and files. It returns their names.
func (e *Engine) Sweep(ctx context.Context, session string) ([]string, error) {
	if !sandbox.ValidSession(session) {
		return nil, fmt.Errorf("sweep: session %q is not a session id", session)
	}
	names, err := e.sweep(ctx, session)
	if err != nil {
		return names, fmt.Errorf("sweep session %s: %w", session, err)
	}
	return names, nil
}

// sweepRounds bounds how often the sweep starts again: what a killed runtime
// had under way may still come to its end while it runs.
const sweepRounds = 5

func (e *Engine) sweep(ctx context.Context, session string) ([]string, error) {
	unlock, err := e.lockSweep(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	seen := map[string]bool{}
	for range sweepRounds {
		var names []string
		names, err = e.sweepRound(ctx, session)
		for _, n := range names {
			seen[n] = true
		}
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return slices.Sorted(maps.Keys(seen)), err
}

func (e *Engine) sweepRound(ctx context.Context, session string) ([]string, error) {
	dir := e.sessionDir(session)
	if err := killRuntimes(ctx, dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	var errs []error
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue // a runtime's own state
		}
		names = append(names, entry.Name())
		errs = append(errs, e.sweepOne(ctx, session, entry.Name()))
	}
	// A runtime that was killed while it made a container may have left its
	// cgroup with processes in it, and no state that names them.
	group := cgroup.Session(session)
	errs = append(errs, cgroup.Kill(ctx, group), cgroup.Remove(group))
	e.removeIfEmpty(session, "runsc")
	errs = append(errs, parts.RemoveTree(ctx, dir))
	return names, errors.Join(errs...)
}

// killRuntimes ends the commands of a runtime that still work on the session:
// each has the session's directory among its arguments.
func killRuntimes(ctx context.Context, dir string) error {
	pids, err := kernel.Processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || pid == os.Getpid() || !bytes.Contains(args, []byte("\x00"+dir+"/.")) {
			continue
		}
		if err := kernel.KillAndAwait(ctx, pid); err != nil && !errors.Is(err, unix.EPERM) {
			return err // another user's process is not one of ours, whatever it says
		}
	}
	return nil
}

func (e *Engine) sweepOne(ctx context.Context, session, name string) error {
	var errs []error
	for _, runtime := range []string{"runc", "runsc"} {
		root := e.runtimeRoot(session, runtime)
		if left, err := filepath.Glob(filepath.Join(root, name+"*")); err != nil || !holds(left, root, name) {
			continue
		}
		path, err := e.runtimePath(runtime)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r := &runc.Runc{Setpgid: true, Command: path, Root: root}
		errs = append(errs, r.Delete(ctx, name, &runc.DeleteOpts{Force: true}))
	}
	return errors.Join(append(errs, e.killRootedIn(filepath.Join(e.sessionDir(session), name)))...)
}

// holds says whether one of the paths is the container's own state: runc's
// directory, or runsc's file.
func holds(paths []string, root, name string) bool {
	for _, p := range paths {
		if p == filepath.Join(root, name) || p == filepath.Join(root, name+"_sandbox:"+name+".state") {
			return true
		}
	}
	return false
}

// killRootedIn kills every process whose root is in the bundle: what a runtime
// has left that is in no cgroup of ours.
func (e *Engine) killRootedIn(bundle string) error {
	host, err := kernel.Mounts(os.Getpid())
	if err != nil {
		return err
	}
	at, ok := kernel.PlaceOf(host, bundle)
	if !ok {
		return nil
	}
	pids, err := kernel.Processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		mounts, err := kernel.Mounts(pid)
		if err != nil {
			continue
		}
		for _, m := range mounts {
			if m.Point == "/" && m.Device == at.Device && sandbox.Within(m.Root, at.Root) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
	return nil
}
