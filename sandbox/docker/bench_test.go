package docker_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/docker/dockertest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// BenchmarkContainer is one hardened container from Create to Remove, and beside
// it the docker command's own create, start, wait and remove of the same image.
func BenchmarkContainer(b *testing.B) {
	d := dockertest.Start(b)
	e := newEngine(b, d.Host, "")
	defer func() { _ = e.Close() }()
	spec := supervisorSpec(b, e, sandboxtest.BuildPayload(b), "a", "exit", "0")
	cli := strings.Fields("-H " + d.Host + " run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges" +
		" --memory 256m --pids-limit 64 --entrypoint /proctor-sidecar " + spec.Image.Digest + " exit 0")
	var bare time.Duration
	for b.Loop() {
		before := time.Now()
		if out, err := exec.Command("docker", cli...).CombinedOutput(); err != nil {
			b.Fatalf("docker run: %v\n%s", err, out)
		}
		bare += time.Since(before)
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
	whole := b.Elapsed()
	b.ReportMetric(bare.Seconds()*1e3/float64(b.N), "ms-docker-run")
	b.ReportMetric((whole-bare).Seconds()*1e3/float64(b.N), "ms-engine")
	b.ReportMetric(float64(whole-bare)/float64(bare), "engine/docker-run")
}
