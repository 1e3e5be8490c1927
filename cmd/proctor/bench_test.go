package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox/docker/dockertest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// rounds is how often each command of a comparison runs; medians are compared.
const rounds = 9

// BenchmarkSession measures whole sessions against bare `docker run`, in turns,
// and prints the ratios of the medians. The machine's own speed cancels out.
func BenchmarkSession(b *testing.B) {
	bin := os.Getenv("PROCTOR_BENCH_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin")
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		b.Fatal(err)
	}
	d := dockertest.Start(b)
	payload := sandboxtest.BuildPayload(b)
	docker := benchDocker(b, d, payload)
	for b.Loop() {
		local := benchHome(b, bin, d.Host, "local")
		inDocker := benchHome(b, bin, d.Host, "docker")
		times := interleave(b, local, docker, inDocker)
		b.ReportMetric(times[0].Seconds()*1e3, "ms-session-local")
		b.ReportMetric(times[1].Seconds()*1e3, "ms-docker-run")
		b.ReportMetric(times[2].Seconds()*1e3, "ms-session-docker")
		b.ReportMetric(float64(times[0])/float64(times[1]), "local/docker-run")
		b.ReportMetric(float64(times[2])/float64(5*times[1]), "docker/5-docker-runs")
	}
}

// benchDocker is one hardened `docker run` of a static binary.
func benchDocker(b testing.TB, d *dockertest.Daemon, payload string) []string {
	dir := b.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		b.Fatal(err)
	}
	data, err := os.ReadFile(payload)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "payload"), data, 0o755); err != nil {
		b.Fatal(err)
	}
	tar := exec.Command("tar", "-C", dir, "-c", "payload", "bin")
	load := exec.Command("docker", "-H", d.Host, "import", "-", "proctor-bench:1")
	if load.Stdin, err = tar.StdoutPipe(); err != nil {
		b.Fatal(err)
	}
	if err := tar.Start(); err != nil {
		b.Fatal(err)
	}
	if out, err := load.CombinedOutput(); err != nil {
		b.Fatalf("docker import: %v\n%s", err, out)
	}
	if err := tar.Wait(); err != nil {
		b.Fatal(err)
	}
	return strings.Fields("docker -H " + d.Host + " run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges" +
		" --pids-limit 128 --memory 256m --cpus 2 --user 65532:65532 proctor-bench:1 /payload exit 0")
}

// benchHome is a whole session, without checks, on a small product.
func benchHome(b *testing.B, bin, host, engine string) []string {
	dir := b.TempDir()
	home, product := filepath.Join(dir, "home"), filepath.Join(dir, "product")
	if err := os.MkdirAll(product, 0o755); err != nil {
		b.Fatal(err)
	}
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(product, fmt.Sprintf("file-%d", i)), []byte("small"), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	b.Setenv("PROCTOR_DOCKER_HOST", host)
	proctor := filepath.Join(bin, "proctor")
	if out, err := exec.Command(proctor, "init", "--home", home, "--engine", engine).CombinedOutput(); err != nil {
		b.Fatalf("init: %v\n%s", err, out)
	}
	policy := "version: 1\nagent: {engine: " + engine + "}\n"
	command := []string{"/bin/true"}
	if engine == "docker" {
		policy = "version: 1\nagent:\n  engine: docker\n  image: {kind: image, ref: \"proctor-bench:1\"}\n"
		command = []string{"/payload", "exit", "0"}
	}
	if err := os.WriteFile(filepath.Join(home, "policy.yaml"), []byte(policy), 0o600); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if out, err := exec.Command(proctor, "sessions", "prune", "--home", home).CombinedOutput(); err != nil {
			b.Errorf("prune: %v\n%s", err, out)
		}
	})
	args := []string{proctor, "run", "--home", home, "--product", product, "--quiet", "--progress", "none"}
	if engine == "docker" {
		args = append(args, "--allow", "runtime-floor")
	}
	return append(append(args, "--"), command...)
}

// interleave runs the commands in turns and returns each one's median.
func interleave(b *testing.B, commands ...[]string) []time.Duration {
	all := make([][]time.Duration, len(commands))
	for round := range rounds + 1 {
		for i, c := range commands {
			start := time.Now()
			if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
				b.Fatalf("%q: %v\n%s", c, err, out)
			}
			if round > 0 { // the first warms up
				all[i] = append(all[i], time.Since(start))
			}
		}
	}
	medians := make([]time.Duration, len(all))
	for i, times := range all {
		slices.Sort(times)
		medians[i] = times[len(times)/2]
	}
	return medians
}
