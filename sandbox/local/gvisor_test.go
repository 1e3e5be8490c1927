//go:build gvisor

package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// TestGVisor is the agent's and the checks' side of the engine on runsc. What
// the suite judges from the host's process table it cannot judge there: the
// payload is no process of the host's.
func TestGVisor(t *testing.T) {
	h := newHarness(t)
	if h.engine.cfg.Runsc == "" {
		t.Fatal("no runsc (make runsc)")
	}
	gvisor := func(ops ...string) sandbox.Spec {
		spec := h.spec(ops...)
		spec.Runtime, spec.Limits.Memory, spec.Limits.PIDs = "runsc", 512<<20, 256
		return spec
	}
	t.Run("agent", func(t *testing.T) {
		dir := h.owned("p")
		stage := h.owned("gstage")
		spec := gvisor("write", "/p/x", "1", "--", "write", "/job/x", "kept", "--", "loopback", "--", "interfaces",
			"--", "chmod", "/job/x", "04755", "--", "mkdir", "/job/d", "0755", "--", "cat", "/proc/self/status", "--", "write", "/usr/x", "x",
			"--", "env", "--", "ls", h.dir, "--", "exit", "5")
		spec.Mounts = append(spec.Mounts,
			sandbox.Mount{Kind: sandbox.MountBind, Source: dir, Target: "/p"},
			sandbox.Mount{Kind: sandbox.MountBind, Source: stage, Target: "/job", Writable: true})
		exit, out := h.run(spec)
		if exit.Code != 5 {
			t.Errorf("exit is %+v, want 5", exit)
		}
		want(t, strings.ReplaceAll(out, "\t", " "), "write /p/x 1: EROFS", "write /job/x kept: ok", "loopback: ok", "chmod /job/x 04755: EPERM",
			"mkdir /job/d 0755: ok", "Uid: 64001 64001 64001 64001", "CapBnd: 0000000000000000", "NoNewPrivs: 1", "env HOME=/tmp", "ls "+h.dir+": ENOENT")
		if b, err := os.ReadFile(filepath.Join(stage, "x")); err != nil || string(b) != "kept" {
			t.Errorf("the stage has %q, %v", b, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "x")); !os.IsNotExist(err) {
			t.Errorf("x is on the host: %v", err)
		}
		h.nothingLeft(spec)
	})
	// runsc leaves what is mounted inside a source as it is.
	t.Run("submount", func(t *testing.T) {
		spec := gvisor("exit", "0")
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: h.withSubmount("sub"), Target: "/p"})
		c, err := h.engine.Create(t.Context(), spec, sandbox.Streams{})
		if err == nil {
			h.remove(c)
		}
		if err == nil || !strings.Contains(err.Error(), `"/p/sub" is not ro`) {
			t.Errorf("a writable mount below a read-only one: %v", err)
		}
		h.nothingLeft(spec)
	})
	t.Run("layer", func(t *testing.T) {
		stage := h.owned("glayer")
		if err := os.WriteFile(filepath.Join(stage, "f"), []byte("lower"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(stage, "f"), testAgent, testAgent); err != nil {
			t.Fatal(err)
		}
		spec := gvisor("cat", "/job/f", "--", "write", "/job/f", "upper", "--", "write", "/job/new", "x", "--", "cat", "/job/f")
		spec.Role, spec.Name = sandbox.RoleCheck, "proctor-"+spec.Session+"-check-1"
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountLayer, Source: stage, Target: "/job", Writable: true, Size: 16 << 20})
		_, out := h.run(spec)
		want(t, out, "lowercat /job/f: ok", "write /job/f upper: ok", "write /job/new x: ok", "uppercat /job/f: ok")
		if b, err := os.ReadFile(filepath.Join(stage, "f")); err != nil || string(b) != "lower" {
			t.Errorf("the host's file is %q, %v", b, err)
		}
		if entries, err := os.ReadDir(stage); err != nil || len(entries) != 1 {
			t.Errorf("the host's directory has %v, %v", entries, err)
		}
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: h.owned("gother"), Target: "/w", Writable: true})
		spec.Role, spec.Name = sandbox.RoleAgent, "proctor-"+spec.Session+"-agent"
		if c, err := h.engine.Create(t.Context(), spec, sandbox.Streams{}); err == nil {
			h.remove(c)
			t.Error("a layer beside a writable mount was made")
		}
	})
	t.Run("ends", func(t *testing.T) {
		out := newOutput()
		spec := gvisor("term", "5")
		c := h.start(spec, sandbox.Streams{Stdout: out, Stderr: out})
		out.await(t, "waiting")
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exit := h.wait(c); exit.Code != 5 {
			t.Errorf("exit is %+v, want 5", exit)
		}
		exit, _ := h.run(gvisor("alloc", "1024"))
		if !exit.OOM {
			t.Errorf("1 GiB of 512 MiB: exit is %+v, want an OOM", exit)
		}
		in, _ := held(t)
		out = newOutput()
		spec = gvisor("ignore", "--", "daemon", "/tmp/x", "--", "wait")
		c = h.start(spec, sandbox.Streams{Stdin: in, Stdout: out})
		out.await(t, "waiting")
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exit := h.wait(c); exit.Signal != 9 {
			t.Errorf("exit is %+v, want SIGKILL", exit)
		}
		if err := c.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.nothingLeft(spec)
	})
	// A kernel of gVisor's that answers nobody, as one that the payload has taken over.
	t.Run("hangs", func(t *testing.T) {
		for _, end := range []string{"stop", "kill", "remove"} {
			spec := gvisor("ignore", "--", "wait")
			in, _ := held(t)
			out := newOutput()
			c := h.start(spec, sandbox.Streams{Stdin: in, Stdout: out})
			out.await(t, "waiting")
			if err := c.signal(unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var err error
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
				if exit := h.wait(c); exit.Signal != 9 {
					t.Errorf("%s: exit is %+v, want SIGKILL", end, exit)
				}
			}
			if err := c.Remove(ctx); err != nil || ctx.Err() != nil {
				t.Errorf("%s: %v, %v", end, err, ctx.Err())
			}
			cancel()
			h.nothingLeft(spec)
		}
	})
	t.Run("network", func(t *testing.T) {
		spec := h.supervise(gvisor(), sandbox.RoleServe, "exit", "0")
		spec.Network = sandbox.NetworkHost
		if c, err := h.engine.Create(t.Context(), spec, sandbox.Streams{}); err == nil {
			h.remove(c)
			t.Error("runsc was given the host's network")
		}
	})
}
