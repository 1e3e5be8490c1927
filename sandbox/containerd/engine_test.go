package containerd_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/containerd"
	"github.com/proctor-project/proctor/sandbox/containerd/containerdtest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// supervisorSpec is a container of the payload in the supervisor's image.
func supervisorSpec(t testing.TB, e *containerd.Engine, payload, name string, args ...string) sandbox.Spec {
	t.Helper()
	img, err := e.Resolve(t.Context(), sandbox.Image{Kind: sandbox.ImageSupervisor, Ref: payload})
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Spec{
		Session: "s1", Role: sandbox.RoleServe, Name: "proctor-s1-serve-" + name, Image: img,
		Argv: append([]string{"/proctor-sidecar"}, args...), Env: []string{"HOME=/"}, Dir: "/", Identity: supervisor(),
		Limits: sandbox.Limits{Memory: 256 << 20, PIDs: 64, MilliCPUs: 2000, OpenFiles: 256}, Grace: time.Second,
	}
}

// TestRuntimeFloor: an agent on a runtime that is not known to have the fixes
// needs the waiver; on the pinned one it does not. A runtime that others could
// change is not used at all.
func TestRuntimeFloor(t *testing.T) {
	d, home := containerdtest.Start(t), t.TempDir()
	pinned := newEngine(t, d, home)
	defer func() { _ = pinned.Close() }()
	on := func(runc string) *containerd.Engine {
		t.Helper()
		e, err := containerd.New(containerd.Config{Address: d.Address, Home: home, Supervisor: supervisorID, Runc: runc})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	old := filepath.Join(t.TempDir(), "runc")
	script := "#!/bin/sh\n[ \"$1\" = --version ] && { echo runc version 1.1.5; exit; }\nexec /usr/sbin/runc \"$@\"\n"
	if err := os.WriteFile(old, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	img, err := pinned.Resolve(t.Context(), importImage(t, newClient(t, d), nil, sandboxtest.ImageConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{
		Session: "s1", Role: sandbox.RoleAgent, Name: "proctor-s1-agent", Image: img, Argv: []string{"/x"},
		Env: []string{"HOME=/"}, Dir: "/", Identity: hostile(),
		Limits: sandbox.Limits{Memory: 64 << 20, PIDs: 16, MilliCPUs: 1000, OpenFiles: 64},
	}
	for _, tc := range []struct {
		engine *containerd.Engine
		waive  []sandbox.Waiver
		floor  bool
	}{
		{pinned, nil, false},
		{on(old), nil, true},
		{on(old), []sandbox.Waiver{sandbox.WaiveRuntimeFloor}, false},
	} {
		spec.Waive = tc.waive
		c, err := tc.engine.Create(t.Context(), spec, sandbox.Streams{})
		var refused *sandbox.RefusedError
		if got := errors.As(err, &refused) && refused.Waiver == sandbox.WaiveRuntimeFloor; got != tc.floor {
			t.Errorf("waivers %q: %v", tc.waive, err)
		}
		if err == nil {
			if err := c.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	if err := os.Chmod(old, 0o777); err != nil {
		t.Fatal(err)
	}
	var unavailable *sandbox.UnavailableError
	if _, err := on(old).Probe(t.Context(), ""); !errors.As(err, &unavailable) || unavailable.Remedy == "" {
		t.Errorf("a runtime that everybody can change: %v", err)
	}
}

// TestDaemonKilled: a crash of the daemon is an error, never an exit code, and
// its container does not go on; and when it is back, the session can be swept.
func TestDaemonKilled(t *testing.T) {
	d, home := containerdtest.Start(t), t.TempDir()
	e := newEngine(t, d, home)
	defer func() { _ = e.Close() }()
	stage := filepath.Join(t.TempDir(), "stage")
	if err := os.Mkdir(stage, 0o755); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	defer func() { _ = r.Close() }()
	token := rand.Text()
	spec := supervisorSpec(t, e, sandboxtest.BuildPayload(t), "a", "ignore", token)
	spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountLayer, Source: stage, Target: "/job", Writable: true, Size: 1 << 20}}
	c, err := e.Create(t.Context(), spec, sandbox.Streams{Stdin: r})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	alive := func() bool { return exec.Command("pgrep", "-f", "^/proctor-sidecar ignore "+token).Run() == nil }
	if !alive() {
		t.Error("the control: the process is not there while the daemon lives")
	}
	d.Kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if exit, err := c.Wait(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("with a dead daemon Wait said %+v, %v", exit, err)
	}
	if _, err := e.Users(ctx, stage); err == nil {
		t.Error("with a dead daemon Users had an answer")
	}
	for tick := time.NewTicker(10 * time.Millisecond); alive(); <-tick.C {
		if ctx.Err() != nil {
			t.Fatal("the container goes on without its daemon")
		}
	}
	d.Restart(t)
	// As the next launcher does: a connection that was refused waits before it
	// tries again.
	next := newEngine(t, d, home)
	defer func() { _ = next.Close() }()
	if names, err := next.Sweep(ctx, spec.Session); err != nil || len(names) != 1 {
		t.Errorf("sweep gave %q, %v", names, err)
	}
	if left := everything(t, newClient(t, d), home); len(left) > 0 {
		t.Errorf("there is still %q", left)
	}
	if users, err := next.Users(ctx, stage); err != nil || len(users) > 0 {
		t.Errorf("users are %q, %v", users, err)
	}
}

// TestUnavailable: what is missing is said with its remedy, at once.
func TestUnavailable(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{plain, filepath.Join(t.TempDir(), "missing")} {
		e, err := containerd.New(containerd.Config{Address: address, Home: t.TempDir(), Supervisor: supervisorID})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Probe(t.Context(), "")
		var unavailable *sandbox.UnavailableError
		if !errors.As(err, &unavailable) || unavailable.Remedy == "" {
			t.Errorf("%s: %v", address, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	for name, cfg := range map[string]containerd.Config{
		"no home":       {Supervisor: 1},
		"relative home": {Supervisor: 1, Home: "x"},
		"no supervisor": {Home: "/x"},
		"namespace":     {Supervisor: 1, Home: "/x", Namespace: "A b"},
		"place":         {Supervisor: 1, Home: "/x", Place: "A"},
		"address":       {Supervisor: 1, Home: "/x", Address: "tcp://1.2.3.4"},
		"separator":     {Supervisor: 1, Home: "/x:y"},
	} {
		if _, err := containerd.New(cfg); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
	if _, err := containerd.New(containerd.Config{Supervisor: 1, Home: "/x", Address: "unix:///run/x"}); err != nil {
		t.Errorf("the control: %v", err)
	}
}
