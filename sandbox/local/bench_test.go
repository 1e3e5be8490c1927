package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox"
)

// BenchmarkLife is one container of the supervisor's from Create to Remove, and
// its parts; run-again is what a bare runc needs for the same bundle.
func BenchmarkLife(b *testing.B) {
	h := newHarness(b)
	spec := h.supervise(h.spec(), sandbox.RoleSeal, "exit", "0")
	b.Run("local", func(b *testing.B) {
		var create, start, wait, remove time.Duration
		for b.Loop() {
			t := time.Now()
			lap := func(d *time.Duration) { now := time.Now(); *d += now.Sub(t); t = now }
			c, err := h.engine.Create(b.Context(), spec, sandbox.Streams{})
			if err != nil {
				b.Fatal(err)
			}
			lap(&create)
			if err := c.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			lap(&start)
			if _, err := c.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
			lap(&wait)
			if err := c.Remove(b.Context()); err != nil {
				b.Fatal(err)
			}
			lap(&remove)
		}
		for name, d := range map[string]time.Duration{"create": create, "start": start, "wait": wait, "remove": remove} {
			b.ReportMetric(float64(d.Microseconds())/1000/float64(b.N), name+"-ms")
		}
	})
	b.Run("runc-run", func(b *testing.B) {
		made, err := h.engine.makeBundle(spec)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			cmd := exec.Command(h.engine.cfg.Runc, "--root", filepath.Join(h.dir, "runc"), "run", "--bundle", made.dir, "bench")
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
		if err := h.engine.removeBundle(b.Context(), made); err != nil {
			b.Fatal(err)
		}
		_ = os.RemoveAll(filepath.Join(h.dir, "runc"))
	})
}
