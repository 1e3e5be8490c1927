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
	"strconv"
	"strings"

	runc "github.com/containerd/go-runc"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
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
	group := e.sessionCgroup(session)
	errs = append(errs, killCgroup(ctx, group), removeCgroups(group))
	e.removeIfEmpty(session, "runsc")
	errs = append(errs, e.removeTree(ctx, dir))
	return names, errors.Join(errs...)
}

// killRuntimes ends the commands of a runtime that still work on the session:
// each has the session's directory among its arguments.
func killRuntimes(ctx context.Context, dir string) error {
	pids, err := processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || pid == os.Getpid() || !bytes.Contains(args, []byte("\x00"+dir+"/.")) {
			continue
		}
		if err := killAndAwait(ctx, pid); err != nil && !errors.Is(err, unix.EPERM) {
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
	host, err := mountsOf(os.Getpid())
	if err != nil {
		return err
	}
	at, ok := placeOf(host, bundle)
	if !ok {
		return nil
	}
	pids, err := processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		mounts, err := mountsOf(pid)
		if err != nil {
			continue
		}
		for _, m := range mounts {
			if m.point == "/" && m.device == at.device && within(m.root, at.root) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
	return nil
}

// killCgroup kills everything in the cgroup and below it and waits for its end.
func killCgroup(ctx context.Context, path string) error {
	dirs, err := cgroupDirs(path)
	if err != nil {
		return err
	}
	for _, top := range dirs {
		err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil //nolint:nilerr // it vanished, which is what is wanted
			}
			return killIn(ctx, p)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// killIn kills the cgroup's processes until there are none: one may fork while
// the list is read. Each round waits for the ends of those it has killed.
func killIn(ctx context.Context, dir string) error {
	for {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil || len(b) == 0 {
			return nil // it vanished, which is what is wanted
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for line := range strings.FieldsSeq(string(b)) {
			pid, err := strconv.Atoi(line)
			if err != nil || pid <= 1 {
				return fmt.Errorf("cgroup %s has a process %q", dir, line)
			}
			if err := killAndAwait(ctx, pid); err != nil {
				return err
			}
		}
	}
}

// killAndAwait uses a pidfd: it becomes readable when the process has ended.
func killAndAwait(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
