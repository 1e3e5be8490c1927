package docker_test

import (
	"testing"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/docker/dockertest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// BenchmarkContainer is one hardened container from Create to Remove.
func BenchmarkContainer(b *testing.B) {
	d := dockertest.Start(b)
	e := newEngine(b, d.Host, "")
	defer func() { _ = e.Close() }()
	spec := supervisorSpec(b, e, sandboxtest.BuildPayload(b), "a", "exit", "0")
	for b.Loop() {
		c, err := e.Create(b.Context(), spec, sandbox.Streams{})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		if exit, err := c.Wait(b.Context()); err != nil || exit.Code != 0 {
			b.Fatalf("%+v, %v", exit, err)
		}
		if err := c.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
