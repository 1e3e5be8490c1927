package containerd_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/containerd"
	"github.com/proctor-project/proctor/sandbox/containerd/containerdtest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// The ids are outside of every range that Debian gives to packages and users.
const (
	hostileID    = 2064001
	hostileRoot  = 2064000
	supervisorID = 2064003
)

// homeVariable tells the launcher that the suite kills where the engine's home is.
const homeVariable = "PROCTOR_TEST_CONTAINERD_HOME"

func hostile() sandbox.Identity {
	return sandbox.Identity{Inside: hostileID, Host: hostileID, HostRoot: hostileRoot}
}

func supervisor() sandbox.Identity {
	return sandbox.Identity{Inside: supervisorID, Host: supervisorID}
}

// newEngine makes an engine on the daemon, for a test's own place.
func newEngine(t testing.TB, d *containerdtest.Daemon, home string, protected ...string) *containerd.Engine {
	t.Helper()
	e, err := containerd.New(containerd.Config{
		Address: d.Address, Home: home, Place: "conformance", Supervisor: supervisorID, Protected: protected,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newClient(t testing.TB, d *containerdtest.Daemon) *client.Client {
	t.Helper()
	api, err := client.New(d.Address, client.WithDefaultNamespace(containerd.DefaultNamespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	return api
}

func TestConformance(t *testing.T) { sandboxtest.Run(t, fixture(t, "runc")) }

// fixture is an engine on a private daemon, agents and checks on the runtime.
func fixture(t *testing.T, runtime string) sandboxtest.Fixture {
	t.Helper()
	d := containerdtest.Start(t)
	home, protected := os.Getenv(homeVariable), filepath.Join(t.TempDir(), "original")
	if home == "" {
		home = t.TempDir()
	}
	// What is not there would be refused for that alone.
	for _, dir := range []string{filepath.Join(protected, "below"), filepath.Join(home, "keys"), filepath.Join(home, "control"), filepath.Join(home, "run")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	api := newClient(t, d)
	return sandboxtest.Fixture{
		Engine:         func(t testing.TB) sandbox.Engine { return newEngine(t, d, home, protected) },
		Hostile:        hostile(),
		Supervisor:     supervisor(),
		HasImageConfig: true,
		Image: func(t testing.TB, files []sandboxtest.File, config sandboxtest.ImageConfig) sandbox.Image {
			return importImage(t, api, files, config)
		},
		Forbidden: []string{
			d.Address, filepath.Dir(d.Address), home, filepath.Join(home, "keys"), filepath.Join(home, "control"), filepath.Join(home, "run"),
			"/var/lib/containerd", "/run/containerd", protected, filepath.Dir(protected), filepath.Join(protected, "below"),
		},
		Tampered: func(t testing.TB, how sandboxtest.Tamper) sandbox.Engine {
			return tampered(t, d, home, runtime, how)
		},
		Leftovers: func(t testing.TB) []string { return everything(t, api, home) },
		ChildEnv:  []string{containerdtest.AddressVariable + "=" + d.Address, homeVariable + "=" + home},
		Waive:     []sandbox.Waiver{sandbox.WaiveRuntimeFloor},
		Runtime:   runtime,
	}
}

// everything lists the namespace's containers and their snapshots, and what the
// engine has in its home.
func everything(t testing.TB, api *client.Client, home string) []string {
	t.Helper()
	ctx := context.Background()
	var all []string
	list, err := api.Containers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		all = append(all, "container "+c.ID())
	}
	err = api.SnapshotService("").Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		if info.Kind != snapshots.KindCommitted { // an image's
			all = append(all, "snapshot "+info.Name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"run/*", "run/*/*", "runc/*/*"} {
		found, _ := filepath.Glob(filepath.Join(home, pattern))
		all = append(all, found...)
	}
	return all
}
