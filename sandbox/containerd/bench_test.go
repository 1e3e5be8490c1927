package containerd_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/containerd"
	"github.com/proctor-project/proctor/sandbox/containerd/containerdtest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// BenchmarkContainer is one hardened container from Create to Remove, and beside
// it ctr's own run of the same image, in turns.
func BenchmarkContainer(b *testing.B) {
	d := containerdtest.Start(b)
	e := newEngine(b, d, b.TempDir())
	defer func() { _ = e.Close() }()
	spec := supervisorSpec(b, e, sandboxtest.BuildPayload(b), "a", "exit", "0")
	images, err := newClient(b, d).ListImages(b.Context())
	if err != nil || len(images) != 1 {
		b.Fatalf("images %v, %v", images, err)
	}
	ctr := strings.Fields("--address " + d.Address + " --namespace " + containerd.DefaultNamespace +
		" run --rm --read-only " + images[0].Name() + " bare /proctor-sidecar exit 0")
	var bare time.Duration
	for b.Loop() {
		before := time.Now()
		if out, err := exec.Command("ctr", ctr...).CombinedOutput(); err != nil {
			b.Fatalf("ctr run: %v\n%s", err, out)
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
	b.ReportMetric(bare.Seconds()*1e3/float64(b.N), "ms-ctr-run")
	b.ReportMetric((whole-bare).Seconds()*1e3/float64(b.N), "ms-engine")
	b.ReportMetric(float64(whole-bare)/float64(bare), "engine/ctr-run")
}
