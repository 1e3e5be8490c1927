package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	runc "github.com/containerd/go-runc"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// Create makes the container and reads back what was made, before the payload
// is started. A spec that differs from what was made is a *RefusedError, and
// nothing is left.
func (e *Engine) Create(ctx context.Context, spec sandbox.Spec, streams sandbox.Streams) (sandbox.Container, error) {
	if err := sandbox.Validate(spec); err != nil {
		return nil, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	info, err := e.Probe(ctx, spec.Runtime)
	if err != nil {
		return nil, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	if err := permitted(spec, info); err != nil {
		return nil, err
	}
	if info.Runtime == "runsc" {
		if problems := e.runscPermits(spec); len(problems) > 0 {
			return nil, &sandbox.RefusedError{Container: spec.Name, Problems: problems, Remedy: "use --runtime runc"}
		}
	}
	if err := e.checkImage(ctx, spec.Image); err != nil {
		return nil, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	if err := e.watch(spec); err != nil {
		return nil, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	b, err := e.makeBundle(spec)
	if err != nil {
		return nil, fmt.Errorf("create container %q: make bundle: %w", spec.Name, err)
	}
	c, err := e.create(ctx, b, streams)
	if err != nil {
		return nil, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	if err := c.verify(); err != nil {
		return nil, errors.Join(err, c.Remove(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// permitted refuses what this engine cannot give here, unless it is waived.
func permitted(spec sandbox.Spec, info sandbox.Info) error {
	refuse := func(w sandbox.Waiver, remedy, format string, args ...any) error {
		return &sandbox.RefusedError{
			Container: spec.Name, Problems: []string{fmt.Sprintf(format, args...)}, Waiver: w, Remedy: remedy,
		}
	}
	waived := func(w sandbox.Waiver) bool { return spec.Waived(w) }
	if info.RuntimeFloor != "ok" && !waived(sandbox.WaiveRuntimeFloor) {
		return refuse(sandbox.WaiveRuntimeFloor, "make "+info.Runtime, "%s", info.RuntimeFloor)
	}
	if len(info.LimitsMissing) > 0 && !waived(sandbox.WaiveNoLimits) {
		return refuse(sandbox.WaiveNoLimits, "run the launcher as root", "limits that cannot be enforced: %s", strings.Join(info.LimitsMissing, ", "))
	}
	if !info.RecursiveRO {
		return refuse("", "use Linux 5.12 or newer", "the kernel has no recursive read-only mounts")
	}
	return nil
}

// create has the runtime make the container. On an error nothing is left.
func (e *Engine) create(ctx context.Context, b *bundle, given sandbox.Streams) (_ *container, err error) {
	c := &container{engine: e, bundle: b, done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.discard(context.WithoutCancel(ctx)))
		}
	}()
	path, err := e.runtimePath(b.spec.Runtime)
	if err != nil {
		return nil, err
	}
	c.runtime = e.invocation(path, b)
	if err := os.MkdirAll(c.runtime.root, 0o711); err != nil {
		return nil, err
	}
	io, err := e.newStreams(b.spec, given)
	if err != nil {
		return nil, err
	}
	c.io = io
	// The container's first process becomes this process's child when the
	// runtime is gone, so that its exit status comes from the kernel.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become subreaper: %w", err)
	}
	pidFile := filepath.Join(b.dir, "pid")
	opts := &runc.CreateOpts{PidFile: pidFile}
	c.io.options(opts)
	if err := c.runtime.create(ctx, b, opts); err != nil {
		return nil, fmt.Errorf("%w%s", err, b.logged())
	}
	if c.pid, err = readPid(pidFile); err != nil {
		return nil, err
	}
	fd, err := unix.PidfdOpen(c.pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open pidfd of the first process: %w", err)
	}
	c.pidfd = os.NewFile(uintptr(fd), "pidfd")
	streamErr := c.io.created()
	go e.cfg.Crash.Guard(func() { c.reap(streamErr) })()
	return c, nil
}

// pipeOwner is who owns the pipes that the engine makes; only root can say.
func (e *Engine) pipeOwner(id sandbox.Identity) int {
	if e.euid != 0 {
		return -1
	}
	return int(id.Host)
}

func readPid(file string) (int, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil || pid < 2 {
		return 0, fmt.Errorf("pid file holds %.40q", b)
	}
	return pid, nil
}

// logged is the runtime's last word on an error, for the message.
func (b *bundle) logged() string {
	body, err := os.ReadFile(b.log())
	if err != nil {
		return ""
	}
	last := ""
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		var entry struct{ Level, Msg string }
		if json.Unmarshal(line, &entry) == nil && (entry.Level == "error" || entry.Level == "fatal") {
			last = entry.Msg
		}
	}
	if last == "" {
		return ""
	}
	return ": " + last
}

// verify compares what was made with what was asked.
func (c *container) verify() error {
	read := c.engine.readBack
	if c.bundle.onRunsc() {
		read = c.engine.readBackRunsc
	}
	report, problems, err := read(c.bundle, c.pid)
	if err != nil {
		return fmt.Errorf("read back container %q: %w", c.Name(), err)
	}
	c.report = report
	problems = append(sandbox.Compare(c.bundle.spec, report), problems...)
	problems = append(problems, strict(report)...)
	if len(problems) > 0 {
		return &sandbox.RefusedError{Container: c.Name(), Problems: problems}
	}
	return nil
}

// strict is what this engine can give and not every one, so that Compare does
// not ask for it.
func strict(r sandbox.Report) []string {
	var problems []string
	for _, n := range []string{"cgroup", "user"} {
		if !slices.Contains(r.Namespaces, n) {
			problems = append(problems, fmt.Sprintf("the %s namespace is shared", n))
		}
	}
	for _, m := range r.Mounts {
		if !m.NoSuid || !m.NoDev {
			problems = append(problems, fmt.Sprintf("the mount at %q is not nosuid and nodev", m.Target))
		}
	}
	return problems
}
