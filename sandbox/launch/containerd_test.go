package launch_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox/containerd/containerdtest"
	"github.com/proctor-project/proctor/sandbox/ociimage"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/programs"
)

// newContainerdDesk is a desk on a private containerd, with the image of the
// desk on docker. Its policy needs no waiver: the runtime is the pinned one.
func newContainerdDesk(t *testing.T) (*desk, *containerdtest.Daemon) {
	t.Helper()
	t.Parallel()
	built := programs.Need(t)
	daemon := containerdtest.Start(t)
	api := containerdClient(t, daemon)
	var archive bytes.Buffer
	if err := (ociimage.Image{Layer: imageLayer(t, built), Architecture: "amd64"}).WriteTo(&archive, dockerImage); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Import(t.Context(), &archive); err != nil {
		t.Fatal(err)
	}
	d := newDeskOn(t, "containerd", "PROCTOR_CONTAINERD_ADDRESS="+daemon.Address)
	d.policy(strings.Replace(dockerPolicy, "allow: [runtime-floor]\n", "", 1))
	return d, daemon
}

func containerdClient(t *testing.T, daemon *containerdtest.Daemon) *client.Client {
	t.Helper()
	api, err := client.New(daemon.Address, client.WithDefaultNamespace("proctor"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	return api
}

// TestContainerd is the session and its faults on engine containerd: PASS and
// FAIL, whatever is killed, a second container on the stage, a supervisor under
// attack.
func TestContainerd(t *testing.T) {
	d, daemon := newContainerdDesk(t)
	api := containerdClient(t, daemon)
	d.containerdSessions(t)
	in := func(name string, test func(*desk)) { d.in(t, name, test) }
	in("boundary", func(d *desk) { d.containerdBoundary() })
	in("second container on the stage", func(d *desk) { d.secondOnContainerd(api) })
	in("daemon killed", func(d *desk) {
		before := len(d.seals())
		r := d.start("/opt/test/agent", "wait")
		r.await("agent| ready")
		daemon.Kill(d)
		if code := r.wait(); code != 3 {
			d.Errorf("ended with %d, want 3:\n%s", code, r.out)
		}
		if strings.Contains(r.out.String(), "PASS") || len(d.seals()) != before {
			d.Errorf("a seal:\n%s", r.out)
		}
		d.until(soon, "the agent ends by itself", func() bool { return len(d.withText("/opt/test/agent")) == 0 })
		daemon.Restart(d)
		d.whole()
	})
}

// in is a part of a test that has the desk's errors.
func (d *desk) in(t *testing.T, name string, test func(*desk)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		d := *d
		d.T = t
		test(&d)
	})
}

// containerdSessions are those whose outcome is one for every runtime.
func (d *desk) containerdSessions(t *testing.T) {
	t.Helper()
	in := func(name string, test func(*desk)) { d.in(t, name, test) }
	killed := func(d *desk, name string) *running {
		r := d.start("/opt/test/agent", "wait")
		r.await("agent| ready")
		if !kill(initOf(r.session(), name)) {
			d.Errorf("%s was not there to be killed", name)
		}
		return r
	}
	in("no fault", func(d *desk) {
		if v := d.run(0, "/opt/test/agent", "daemon", "x"); v.Verdict != "PASS" {
			d.Errorf("%s %q", v.Verdict, v.Reasons)
		}
		d.seenAsDocumented()
	})
	in("check that fails", func(d *desk) { d.failingCheck() })
	in("launcher killed", func(d *desk) {
		if !d.killIn("agent", "agent| ready") {
			d.Error("the launcher was faster")
		}
		d.whole()
	})
	in("serve killed", func(d *desk) {
		r := killed(d, "serve")
		r.ends(3)
		if text := r.out.String(); !strings.Contains(text, "the supervisor ended while the agent ran") || strings.Contains(text, "PASS") {
			d.Errorf("%s", text)
		}
		d.whole()
	})
	in("agent killed", func(d *desk) { killed(d, "agent").ends(0) })
	in("supervisor under attack", func(d *desk) {
		for _, attack := range []string{"forks", "output", "sockets"} {
			r := d.start("/opt/test/agent", attack)
			r.await("agent| ready")
			answered, slowest := d.ask(d.path("home/host/containerd/control/sockets/" + r.session() + "/supervisor.sock"))
			d.Logf("%s: %d of %d questions answered, the slowest in %s", attack, answered, asked, slowest)
			if answered < asked || slowest > time.Second {
				d.Errorf("%s: the supervisor did not answer in time", attack)
			}
			d.must(r.cmd.Process.Signal(os.Interrupt))
			r.ends(0)
		}
	})
}

// failingCheck: a check that fails.
func (d *desk) failingCheck() {
	d.Helper()
	whole, err := os.ReadFile(d.path("home/policy.yaml"))
	d.must(err)
	defer func() { d.must(os.WriteFile(d.path("home/policy.yaml"), whole, 0o644)) }()
	d.policy(strings.Replace(string(whole), "    argv: [/bin/agent, pass]\n", "    argv: [/bin/agent, fail]\n", 1))
	v := d.run(1, "true")
	if v.Verdict != "FAIL" || len(v.Checks) != 1 || v.Checks[0].Passed {
		d.Errorf("%+v", v)
	}
}

// containerdBoundary (invariants 1, 2 and 3): what the agent and a look at the
// root key's bytes show while the agent runs.
func (d *desk) containerdBoundary() {
	d.Helper()
	files, _ := filepath.Glob(d.path("home/host/containerd/keys/root/epoch-*"))
	if len(files) != 1 {
		d.Fatalf("root keys: %q", files)
	}
	key, err := os.ReadFile(files[0])
	d.must(err)
	if found := find(key, d.path("home")); !slices.Equal(found, files) || len(key) < 32 { // the search's positive control, too
		d.Fatalf("the root key's bytes are in %q", found)
	}
	r := d.start("/opt/test/agent", "wait")
	r.await("agent| ready")
	id := r.session()
	have := containers(id)
	if slices.Sort(have); !slices.Equal(have, []string{"agent", "serve"}) {
		d.Errorf("beside the agent: %q", have)
	}
	d.wantSeen("agent", initOf(id, "agent"), map[string]string{
		"home/host/stages/" + id + "/tree": "rw", "home/host/engines/tools": "ro", "home/host/containerd/control/sockets/" + id: "ro",
	})
	d.nowhere(key, id, files[0])
	d.must(r.cmd.Process.Signal(syscall.SIGTERM))
	r.ends(0)
	d.nowhere(key, id, files[0])
}

// secondOnContainerd: a container of another namespace that has the stage in its
// mounts is named, and the verdict is INDETERMINATE.
func (d *desk) secondOnContainerd(api *client.Client) {
	d.Helper()
	r := d.start("/opt/test/agent", "wait")
	r.await("agent| ready")
	ctx := namespaces.WithNamespace(context.Background(), "elsewhere")
	other, err := api.NewContainer(ctx, "someone", client.WithRuntime("io.containerd.runc.v2", nil), client.WithSpec(&specs.Spec{
		Version: "1.0.2", Root: &specs.Root{Path: "rootfs"}, Process: &specs.Process{Args: []string{"/bin/agent"}, Cwd: "/"},
		Mounts: []specs.Mount{{Destination: "/stage", Type: "bind", Source: d.path("home/host/stages/" + r.session() + "/tree"), Options: []string{"rbind"}}},
	}))
	d.must(err)
	d.must(r.cmd.Process.Signal(os.Interrupt))
	r.ends(3)
	if text := r.out.String(); !strings.Contains(text, "containerd container elsewhere/someone can still write the product") {
		d.Errorf("the other is not named:\n%s", text)
	}
	d.must(other.Delete(ctx))
	d.whole()
}
