package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/kernel"
)

const (
	// execDeadline bounds how long the runtime may take from "started" to the
	// payload's exec: runc installs seccomp in between.
	execDeadline = 5 * time.Second
	execTick     = 2 * time.Millisecond
)

// errEnded says that the process ended before it could be looked at.
var errEnded = errors.New("the process has ended")

// checkProcess holds what the kernel says about the started process against
// the spec. A process that ended meanwhile has nothing left to check. A
// runtime with a kernel of its own has no process here.
func (c *Container) checkProcess(ctx context.Context) error {
	if kindOfRuntime(c.spec.Runtime) != "runc" {
		return nil
	}
	got, err := c.engine.api.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("check the process of %q: %w", c.spec.Name, err)
	}
	state := got.Container.State
	if state == nil || !state.Running || state.Pid <= 0 {
		return nil
	}
	dir := filepath.Join("/proc", strconv.Itoa(state.Pid))
	c.hold(state.Pid, dir)
	err = awaitExec(ctx, dir)
	if err == nil {
		err = errors.Join(c.checkStatus(dir), c.checkNamespaces(dir), c.checkMounts(dir))
	}
	if errors.Is(err, errEnded) || err == nil {
		return nil
	}
	return refused(c.spec, err)
}

// hold keeps a handle on the container's first process, for the case that the
// daemon dies: the containers of a dead daemon go on without it.
func (c *Container) hold(pid int, dir string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	// The number could have been given to another process before it was opened.
	group, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil || !bytes.Contains(group, []byte(c.id)) {
		_ = unix.Close(fd)
		return
	}
	c.run.process.Store(int64(fd))
}

// endOrphan kills the process of a container whose daemon no longer answers, as
// far as the launcher may. The first process takes all others with it.
func (r *run) endOrphan() {
	if fd := r.process.Load(); fd >= 0 {
		_ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0)
	}
}

// release gives the handle back.
func (r *run) release() {
	if fd := r.process.Swap(-1); fd >= 0 {
		_ = unix.Close(int(fd))
	}
}

// awaitExec returns when the runtime's own first process has become the payload.
func awaitExec(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, execDeadline)
	defer cancel()
	tick := time.NewTicker(execTick)
	defer tick.Stop()
	for {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(line) == 0 {
			return errEnded
		}
		if !bytes.HasSuffix(line, []byte("runc\x00init\x00")) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the runtime did not run the payload")
		case <-tick.C:
		}
	}
}

// checkStatus judges proc(5) status, which every user may read.
func (c *Container) checkStatus(dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return errEnded
	}
	status := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.Join(strings.Fields(value), " ")
	}
	if s := status["State"]; strings.HasPrefix(s, "Z") || strings.HasPrefix(s, "X") {
		return errEnded
	}
	id := strconv.FormatUint(uint64(c.spec.Identity.Host), 10)
	four := strings.Join([]string{id, id, id, id}, " ")
	want := map[string]string{"Uid": four, "Gid": four, "NoNewPrivs": "1", "Seccomp": "2"}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		want[set] = "0000000000000000"
	}
	var errs []error
	for name, value := range want {
		if status[name] != value {
			errs = append(errs, fmt.Errorf("the kernel says %s is %q, and it must be %q", name, status[name], value))
		}
	}
	// Docker lists the primary group among the supplementary ones since 20.10.18 (CVE-2022-36109).
	if groups := status["Groups"]; groups != "" && groups != id {
		errs = append(errs, fmt.Errorf("the kernel says the supplementary groups are %q", groups))
	}
	return errors.Join(errs...)
}

// checkNamespaces needs the right to trace the process; without it the daemon's
// inspection alone stands.
func (c *Container) checkNamespaces(dir string) error {
	var errs []error
	for _, name := range c.report.Namespaces {
		own, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return fmt.Errorf("read own namespaces: %w", err)
		}
		its, err := os.Readlink(filepath.Join(dir, "ns", name))
		switch {
		case errors.Is(err, os.ErrPermission):
			return nil
		case err != nil:
			return errEnded
		case its == own:
			errs = append(errs, fmt.Errorf("its %s namespace is the launcher's", name))
		}
	}
	return errors.Join(errs...)
}

// checkMounts compares the process's mounts with the spec: every one asked for
// is there and as read-only as asked, and no other is, beside the runtime's own.
func (c *Container) checkMounts(dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "mountinfo"))
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil
	case err != nil || len(raw) == 0:
		return errEnded
	}
	mounts, err := kernel.ParseMountinfo(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	readOnly := map[string]bool{}
	for _, m := range mounts {
		readOnly[m.Point] = m.Has("ro") // the last mount at a point hides the ones before it
	}
	var errs []error
	for _, m := range c.spec.Mounts {
		ro, there := readOnly[filepath.Clean(m.Target)]
		switch {
		case !there:
			errs = append(errs, fmt.Errorf("the kernel shows no mount at %q", m.Target))
		case ro == m.Writable:
			errs = append(errs, fmt.Errorf("the kernel shows the mount at %q read-only %v, and it must be %v", m.Target, ro, !m.Writable))
		}
		delete(readOnly, filepath.Clean(m.Target))
	}
	if ro, there := readOnly["/"]; !there || !ro {
		errs = append(errs, errors.New("the kernel shows a writable root"))
	}
	for point := range readOnly {
		if !runtimeMount(point) {
			errs = append(errs, fmt.Errorf("the kernel shows a mount at %q that was not asked for", point))
		}
	}
	return errors.Join(errs...)
}

// runtimeMount knows what docker and runc mount in every container.
func runtimeMount(point string) bool {
	switch point {
	case "/", "/proc", "/sys", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf",
		"/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/dev/console":
		return true
	}
	return sandbox.Within(point, "/sys/fs/cgroup") || slices.Contains(maskedPaths(), point) || slices.Contains(readonlyPaths(), point)
}

var _ sandbox.Container = (*Container)(nil)
