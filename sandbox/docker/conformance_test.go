package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/docker"
	"github.com/proctor-project/proctor/sandbox/docker/dockertest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// The ids are outside of every range that Debian gives to packages and users.
const (
	hostileID    = 2064001
	supervisorID = 2064003
)

func hostile() sandbox.Identity {
	return sandbox.Identity{Inside: hostileID, Host: hostileID}
}

func supervisor() sandbox.Identity {
	return sandbox.Identity{Inside: supervisorID, Host: supervisorID}
}

// newEngine makes an engine on the daemon at host, for a test's own place.
func newEngine(t testing.TB, host, layers string, protected ...string) *docker.Engine {
	t.Helper()
	e, err := docker.New(docker.Config{
		Host: host, Place: "conformance", Supervisor: supervisorID, LayerDir: layers, Protected: protected,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestConformance(t *testing.T) {
	d := dockertest.Start(t)
	layers, protected := t.TempDir(), filepath.Join(t.TempDir(), "original")
	if err := os.MkdirAll(filepath.Join(protected, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(client.WithHost(d.Host))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	socket := strings.TrimPrefix(d.Host, "unix://")
	sandboxtest.Run(t, sandboxtest.Fixture{
		Engine:         func(t testing.TB) sandbox.Engine { return newEngine(t, d.Host, layers, protected) },
		Hostile:        hostile(),
		Supervisor:     supervisor(),
		HasImageConfig: true,
		Image: func(t testing.TB, files []sandboxtest.File, config sandboxtest.ImageConfig) sandbox.Image {
			return loadImage(t, api, files, config)
		},
		Forbidden: []string{
			socket, filepath.Dir(socket), filepath.Join(filepath.Dir(socket), "data"), filepath.Join(filepath.Dir(socket), "data", "volumes"),
			"/var/lib/docker", "/run/containerd", protected, filepath.Dir(protected), filepath.Join(protected, "below"),
		},
		Tampered: func(t testing.TB, how sandboxtest.Tamper) sandbox.Engine {
			return tampered(t, d.Host, how)
		},
		Leftovers: func(t testing.TB) []string { return everything(t, api) },
		ChildEnv:  []string{dockertest.HostVariable + "=" + d.Host},
		Waive:     []sandbox.Waiver{sandbox.WaiveRuntimeFloor},
	})
}

// everything lists the daemon's containers and volumes.
func everything(t testing.TB, api *client.Client) []string {
	t.Helper()
	ctx := context.Background()
	containers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	volumes, err := api.VolumeList(ctx, client.VolumeListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range containers.Items {
		all = append(all, "container "+strings.Join(c.Names, ","))
	}
	for _, v := range volumes.Items {
		all = append(all, "volume "+v.Name)
	}
	return all
}
