package docker_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/docker"
	"github.com/proctor-project/proctor/sandbox/docker/dockertest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
)

// supervisorSpec is a container of the payload in the supervisor's image.
func supervisorSpec(t testing.TB, e *docker.Engine, payload, name string, args ...string) sandbox.Spec {
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

// TestPinnedRunc: the runc that make builds, as a runtime of the daemon's, is
// known by its own word, and runs containers.
func TestPinnedRunc(t *testing.T) {
	d := dockertest.Start(t)
	need.That(t, d.PinnedRunc != "", "no pinned runc")
	e, err := docker.New(docker.Config{Host: d.Host, Place: "pinned", Supervisor: supervisorID, Runc: d.PinnedRunc})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	info, err := e.Probe(t.Context(), "")
	if err != nil || info.RuntimeFloor != "ok" || info.Runtime != "runc" || info.RuntimeVersion == "" {
		t.Errorf("probe says %+v, %v", info, err)
	}
	wantFloor(t, d, e)
	var out bytes.Buffer
	c, err := e.Create(t.Context(), supervisorSpec(t, e, sandboxtest.BuildPayload(t), "a", "try", "status"), sandbox.Streams{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Error(err)
	}
	if exit, err := c.Wait(t.Context()); err != nil || exit.Code != 0 || !strings.Contains(out.String(), `"Seccomp":"2"`) {
		t.Errorf("ended with %+v, %v: %s", exit, err, out.String())
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// wantFloor: an agent on a runtime that is not known to have the fixes needs the
// waiver; on the pinned one it does not.
func wantFloor(t *testing.T, d *dockertest.Daemon, pinned *docker.Engine) {
	t.Helper()
	api, err := client.New(client.WithHost(d.Host))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = api.Close() }()
	img, err := pinned.Resolve(t.Context(), loadImage(t, api, nil, sandboxtest.ImageConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	daemons := newEngine(t, d.Host, "")
	defer func() { _ = daemons.Close() }()
	info, err := daemons.Probe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{
		Session: "s1", Role: sandbox.RoleAgent, Name: "proctor-s1-agent", Image: img, Argv: []string{"/x"},
		Env: []string{"HOME=/"}, Dir: "/", Identity: hostile(),
		Limits: sandbox.Limits{Memory: 64 << 20, PIDs: 16, MilliCPUs: 1000, OpenFiles: 64},
	}
	for _, tc := range []struct {
		engine  *docker.Engine
		waive   []sandbox.Waiver
		refused bool
	}{
		{pinned, nil, false},
		{daemons, nil, info.RuntimeFloor != "ok"},
		{daemons, []sandbox.Waiver{sandbox.WaiveRuntimeFloor}, false},
	} {
		spec.Waive = tc.waive
		c, err := tc.engine.Create(t.Context(), spec, sandbox.Streams{})
		var refused *sandbox.RefusedError
		if errors.As(err, &refused) != tc.refused || (tc.refused && refused.Waiver != sandbox.WaiveRuntimeFloor) || (err != nil && !tc.refused) {
			t.Errorf("floor %q, waivers %q: %v", info.RuntimeFloor, tc.waive, err)
		}
		if err == nil {
			if err := c.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDaemonKilled: a crash of the daemon is an error, never an exit code; and
// when it is back, the session can be swept.
func TestDaemonKilled(t *testing.T) {
	d := dockertest.Start(t)
	layers := t.TempDir()
	e := newEngine(t, d.Host, layers)
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
	spec := supervisorSpec(t, e, sandboxtest.BuildPayload(t), "a", "drain", token)
	spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountLayer, Source: stage, Target: "/job", Writable: true, Size: 1 << 20}}
	c, err := e.Create(t.Context(), spec, sandbox.Streams{Stdin: r})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !alive(t, token) {
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
	// Its input's end would not reach it: the shim holds the other end as well.
	for tick := time.NewTicker(10 * time.Millisecond); alive(t, token); <-tick.C {
		if ctx.Err() != nil {
			t.Fatal("the container goes on without its daemon")
		}
	}
	d.Restart(t)
	if names, err := e.Sweep(ctx, spec.Session); err != nil || len(names) != 1 {
		t.Errorf("sweep gave %q, %v", names, err)
	}
	if left, err := os.ReadDir(layers); err != nil || len(left) > 0 {
		t.Errorf("the layers have %v, %v", left, err)
	}
	if users, err := e.Users(ctx, stage); err != nil || len(users) > 0 {
		t.Errorf("users are %q, %v", users, err)
	}
}

// alive reports whether a process of the payload has the token.
func alive(t testing.TB, token string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range lines {
		line, _ := os.ReadFile(file)
		if bytes.HasPrefix(line, []byte("/proctor-sidecar\x00")) && bytes.Contains(line, []byte(token)) {
			return true
		}
	}
	return false
}

// TestForeignVolumes: only what this installation made is taken for a part.
func TestForeignVolumes(t *testing.T) {
	d := dockertest.Start(t)
	e := newEngine(t, d.Host, "")
	defer func() { _ = e.Close() }()
	api, err := client.New(client.WithHost(d.Host))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = api.Close() }()
	spec := supervisorSpec(t, e, sandboxtest.BuildPayload(t), "a", "exit", "0")
	spec.Role, spec.Name = sandbox.RoleSeal, "proctor-s1-seal"
	m := e.Part(sandbox.PartRootKeys, "")
	spec.Mounts = []sandbox.Mount{m}
	for name, options := range map[string]client.VolumeCreateOptions{
		"plain":   {Name: m.Source, Driver: "local"},
		"a bind":  {Name: m.Source, Driver: "local", DriverOpts: map[string]string{"type": "none", "o": "bind", "device": t.TempDir()}},
		"missing": {},
	} {
		if options.Name != "" {
			if _, err := api.VolumeCreate(t.Context(), options); err != nil {
				t.Fatal(err)
			}
		}
		if c, err := e.Create(t.Context(), spec, sandbox.Streams{}); err == nil {
			t.Errorf("%s: a container with a volume of another was made", name)
			_ = c.Remove(t.Context())
		}
		if _, err := e.HasPart(t.Context(), sandbox.PartRootKeys, ""); err == nil && name != "missing" {
			t.Errorf("%s: a volume of another is taken for a part", name)
		}
		if err := e.MakePart(t.Context(), sandbox.PartRootKeys, "", supervisor()); err == nil && name != "missing" {
			t.Errorf("%s: a part was made over it", name)
		}
		if err := e.RemovePart(t.Context(), sandbox.PartRootKeys, ""); err == nil && name != "missing" {
			t.Errorf("%s: a volume of another was removed", name)
		}
		_, _ = api.VolumeRemove(t.Context(), m.Source, client.VolumeRemoveOptions{Force: true})
	}
	if err := e.MakePart(t.Context(), sandbox.PartRootKeys, "", hostile()); err == nil {
		t.Error("a part was made for another owner than the supervisor")
	}
	if err := e.MakePart(t.Context(), sandbox.PartRootKeys, "", supervisor()); err != nil {
		t.Fatalf("the control: %v", err)
	}
	c, err := e.Create(t.Context(), spec, sandbox.Streams{})
	if err != nil {
		t.Fatalf("the control: %v", err)
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if err := e.RemovePart(t.Context(), sandbox.PartRootKeys, ""); err != nil {
		t.Error(err)
	}
}
