//go:build gvisor

package containerd_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/containerd/containerdtest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// TestGVisor is the suite with agents and checks on runsc.
func TestGVisor(t *testing.T) { sandboxtest.Run(t, fixture(t, "runsc")) }

// TestGVisorHangs: a kernel of gVisor's that answers nobody, as one that the
// payload has taken over, can be stopped and removed; and it is not root.
func TestGVisorHangs(t *testing.T) {
	d, home := containerdtest.Start(t), t.TempDir()
	e := newEngine(t, d, home)
	defer func() { _ = e.Close() }()
	payload, err := os.ReadFile(sandboxtest.BuildPayload(t))
	if err != nil {
		t.Fatal(err)
	}
	api := newClient(t, d)
	img, err := e.Resolve(t.Context(), importImage(t, api, []sandboxtest.File{{Path: "/payload", Content: payload, Mode: 0o755}}, sandboxtest.ImageConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{
		Session: "s1", Role: sandbox.RoleAgent, Image: img, Argv: []string{"/payload", "ignore"}, Env: []string{"HOME=/"}, Dir: "/",
		Identity: hostile(), Runtime: "runsc", Grace: time.Second,
		Limits: sandbox.Limits{Memory: 512 << 20, PIDs: 256, MilliCPUs: 2000, OpenFiles: 256},
	}
	for _, end := range []string{"stop", "kill", "remove"} {
		spec.Name = "proctor-s1-agent-" + end
		c, err := e.Create(t.Context(), spec, sandbox.Streams{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		pid := hang(t, spec)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		switch end {
		case "stop":
			err = c.Stop(ctx)
		case "kill":
			err = c.Kill(ctx)
		}
		if err != nil {
			t.Errorf("%s: %v", end, err)
		}
		if end != "remove" {
			if exit, err := c.Wait(ctx); err != nil || exit.Signal != int(unix.SIGKILL) {
				t.Errorf("%s: ended with %+v, %v", end, exit, err)
			}
		}
		if err := c.Remove(ctx); err != nil {
			t.Errorf("%s: %v", end, err)
		}
		if unix.Kill(pid, 0) == nil {
			t.Errorf("%s: process %d is still there", end, pid)
		}
		cancel()
	}
	if left := everything(t, api, home); len(left) > 0 {
		t.Errorf("there is still %q", left)
	}
}

// hang stops the sandbox process, which must not be the host's root.
func hang(t *testing.T, spec sandbox.Spec) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(cgroup.ControllerDir("memory", cgroup.Of(spec)), "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(b)) {
		args, _ := os.ReadFile(filepath.Join("/proc", line, "cmdline"))
		if !bytes.HasPrefix(args, []byte("runsc-sandbox")) {
			continue
		}
		status, _ := os.ReadFile(filepath.Join("/proc", line, "status"))
		if want := "\nUid:\t2064000\t2064000\t2064000\t2064000\n"; !strings.Contains(string(status), want) {
			t.Errorf("the sandbox is not %q:\n%s", want, status)
		}
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Fatalf("no sandbox among the processes %q", b)
	return 0
}
