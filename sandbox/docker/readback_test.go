package docker

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
)

func TestPointDifferences(t *testing.T) {
	want := []container.MountPoint{
		{Type: mount.TypeBind, Source: "/stage", Destination: "/job", RW: true, Propagation: mount.PropagationRPrivate},
		{Type: mount.TypeVolume, Name: "v", Destination: "/keys", Driver: "local"},
	}
	good := func() []container.MountPoint {
		got := slices.Clone(want)
		got[1].Source, got[1].Mode = "/var/lib/docker/volumes/v/_data", "z"
		slices.Reverse(got)
		return got
	}
	if d := pointDifferences(want, good()); len(d) > 0 {
		t.Errorf("the control: %q", d)
	}
	for name, change := range map[string]func([]container.MountPoint) []container.MountPoint{
		"missing": func(g []container.MountPoint) []container.MountPoint { return g[1:] },
		"more": func(g []container.MountPoint) []container.MountPoint {
			return append(g, container.MountPoint{Destination: "/x"})
		},
		"twice":       func(g []container.MountPoint) []container.MountPoint { return append(g, g[0]) },
		"source":      func(g []container.MountPoint) []container.MountPoint { g[1].Source = "/other"; return g },
		"writable":    func(g []container.MountPoint) []container.MountPoint { g[0].RW = true; return g },
		"propagation": func(g []container.MountPoint) []container.MountPoint { g[1].Propagation = "rshared"; return g },
		"volume":      func(g []container.MountPoint) []container.MountPoint { g[0].Name = "w"; return g },
		"driver":      func(g []container.MountPoint) []container.MountPoint { g[0].Driver = "nfs"; return g },
		"kind":        func(g []container.MountPoint) []container.MountPoint { g[0].Type = "bind"; return g },
	} {
		if d := pointDifferences(want, change(good())); len(d) == 0 {
			t.Errorf("%s: not seen", name)
		}
	}
}

func TestNew(t *testing.T) {
	good := Config{Supervisor: 64003}
	e, err := New(good)
	if err != nil {
		t.Fatalf("the control: %v", err)
	}
	_ = e.Close()
	for name, change := range map[string]func(*Config){
		"tcp":             func(c *Config) { c.Host = "tcp://127.0.0.1:2375" },
		"relative socket": func(c *Config) { c.Host = "unix://docker.sock" },
		"ssh":             func(c *Config) { c.Host = "ssh://host" },
		"root":            func(c *Config) { c.Supervisor = 0 },
		"place":           func(c *Config) { c.Place = "a-b" },
		"relative layers": func(c *Config) { c.LayerDir = "layers" },
		"layers with :":   func(c *Config) { c.LayerDir = "/a:b" },
		"layers with ,":   func(c *Config) { c.LayerDir = "/a,ro" },
		"protected":       func(c *Config) { c.Protected = []string{"keys"} },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); !errors.Is(err, errConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "docker.sock")
	e, err := New(Config{Host: "unix://" + missing, Supervisor: 64003})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	for name, call := range map[string]func() error{
		"probe": func() error { _, err := e.Probe(t.Context(), ""); return err },
		"users": func() error { _, err := e.Users(t.Context(), "/tmp"); return err },
		"sweep": func() error { _, err := e.Sweep(t.Context(), "s"); return err },
		"resolve": func() error {
			_, err := e.Resolve(t.Context(), sandbox.Image{Kind: sandbox.ImageRef, Ref: "a"})
			return err
		},
	} {
		var unavailable *sandbox.UnavailableError
		if err := call(); !errors.As(err, &unavailable) || unavailable.Remedy == "" || unavailable.Engine != "docker" {
			t.Errorf("%s: %v, want an UnavailableError with a remedy", name, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	spec := sandbox.Spec{Env: []string{"HOME=/", "KEEP=mine"}}
	var image client.ImageInspectResult
	got := environment(spec, image)
	if !slices.Equal(got, []string{"HOME=/", "KEEP=mine", "PATH", "HOSTNAME", "TERM", "container"}) {
		t.Errorf("%q", got)
	}
}
