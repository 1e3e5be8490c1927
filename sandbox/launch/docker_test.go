package launch_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox/docker/dockertest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/programs"
)

const dockerImage = "proctor-launch-test:1"

// dockerPolicy has a check that passes.
const dockerPolicy = `version: 1
agent:
  timeout: 2m
  grace: 1s
  image: {kind: image, ref: "` + dockerImage + `"}
  limits: {memory: 96MiB, pids: 64}
  mounts:
    - {source: PAYLOAD, target: /opt/test}
checks:
  - name: unit
    argv: [/bin/agent, pass]
allow: [runtime-floor]
`

// newDockerDesk is a desk on a private daemon, with an image that holds the
// payload and a shell, and nothing else.
func newDockerDesk(t *testing.T) (*desk, *dockertest.Daemon) {
	t.Helper()
	t.Parallel()
	return newDockerDeskIn(t, func(start func() error) error { return start() })
}

// newDockerDeskIn has the daemon, and every session, in a network.
func newDockerDeskIn(t *testing.T, network func(start func() error) error) (*desk, *dockertest.Daemon) {
	t.Helper()
	built := programs.Need(t)
	daemon := dockertest.StartIn(t, network)
	api, err := client.New(client.WithHost(daemon.Host))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = api.Close() }()
	layer := imageLayer(t, built)
	got, err := api.ImageImport(t.Context(), client.ImageImportSource{Source: bytes.NewReader(layer), SourceName: "-"}, dockerImage, client.ImageImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, got); err != nil {
		t.Fatal(err)
	}
	d := newDeskOn(t, "docker", "PROCTOR_DOCKER_HOST="+daemon.Host)
	d.network = network
	d.policy(dockerPolicy)
	return d, daemon
}

// imageLayer is an image's one layer: the payload, and a shell, and nothing else.
func imageLayer(t *testing.T, built string) []byte {
	t.Helper()
	payload, err := os.ReadFile(filepath.Join(built, "payload", "agent"))
	if err != nil {
		t.Fatal(err)
	}
	shell, err := os.ReadFile("/usr/bin/busybox") // static
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, h := range []*tar.Header{
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "opt/test/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "bin/agent", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(payload))},
		{Name: "bin/sh", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(shell))},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if content, ok := map[string][]byte{"bin/agent": payload, "bin/sh": shell}[h.Name]; ok {
			if _, err := w.Write(content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return layer.Bytes()
}

// TestDocker is the faults of TestKilledLauncher and TestKilledContainer that a
// daemon makes different.
func TestDocker(t *testing.T) {
	d, daemon := newDockerDesk(t)
	api, err := client.New(client.WithHost(daemon.Host))
	d.must(err)
	defer func() { _ = api.Close() }()
	in := func(name string, test func(*desk)) {
		t.Run(name, func(t *testing.T) {
			d := *d
			d.T = t
			test(&d)
		})
	}
	in("no fault", func(d *desk) {
		if v := d.run(0, "/opt/test/agent", "daemon", "x"); v.Verdict != "PASS" {
			t.Errorf("%s %q", v.Verdict, v.Reasons)
		}
		d.seenAsDocumented()
	})
	in("launcher killed", func(d *desk) {
		if !d.killIn("agent", "agent| ready") {
			t.Error("the launcher was faster")
		}
		d.whole()
	})
	in("serve killed", func(d *desk) {
		r := d.start("/opt/test/agent", "wait")
		r.await("agent| ready")
		_, err := api.ContainerKill(d.Context(), "proctor-"+r.session()+"-serve", client.ContainerKillOptions{Signal: "KILL"})
		d.must(err)
		r.ends(3)
		if text := r.out.String(); !strings.Contains(text, "the supervisor ended while the agent ran") || strings.Contains(text, "PASS") {
			t.Errorf("%s", text)
		}
		d.whole()
	})
	in("agent killed", func(d *desk) {
		r := d.start("/opt/test/agent", "wait")
		r.await("agent| ready")
		_, err := api.ContainerKill(d.Context(), "proctor-"+r.session()+"-agent", client.ContainerKillOptions{Signal: "KILL"})
		d.must(err)
		r.ends(0)
	})
	in("second container on the stage", func(d *desk) { d.secondContainer(daemon) })
	in("supervisor under attack", func(d *desk) {
		for _, attack := range []string{"forks", "output", "sockets"} {
			d.dockerAttack(daemon, attack)
		}
	})
	in("daemon killed", func(d *desk) { d.daemonKilled(daemon) })
}

// secondContainer: another container that mounts the stage is named, and the
// verdict is INDETERMINATE.
func (d *desk) secondContainer(daemon *dockertest.Daemon) {
	d.Helper()
	r := d.start("/opt/test/agent", "wait")
	r.await("agent| ready")
	id := r.session()
	docker := func(args ...string) {
		d.Helper()
		cmd := exec.Command("docker", args...)
		cmd.Env = append(os.Environ(), "DOCKER_HOST="+daemon.Host)
		if out, err := cmd.CombinedOutput(); err != nil {
			d.Fatalf("docker %q: %v: %s", args, err, out)
		}
	}
	docker("run", "-d", "--name", "someone", "--network", "none", "-v", d.path("home/host/stages/"+id+"/tree")+":/stage", dockerImage, "/bin/agent", "wait")
	d.must(r.cmd.Process.Signal(os.Interrupt))
	r.ends(3)
	if text := r.out.String(); !strings.Contains(text, "docker container someone can still write the product") {
		d.Errorf("the other is not named:\n%s", text)
	}
	docker("rm", "-f", "someone")
	d.whole()
}

// daemonKilled: an engine that dies while the agent runs leaves no PASS, and
// what it left behind is cleaned up when it is back.
func (d *desk) daemonKilled(daemon *dockertest.Daemon) {
	d.Helper()
	before := len(d.seals())
	r := d.start("/opt/test/agent", "wait")
	r.await("agent| ready")
	daemon.Kill(d)
	if code := r.wait(); code != 3 {
		d.Errorf("ended with %d, want 3:\n%s", code, r.out)
	}
	if strings.Contains(r.out.String(), "PASS") || len(d.seals()) != before {
		d.Errorf("a seal:\n%s", r.out)
	}
	d.until(soon, "the agent ends by itself", func() bool { return len(d.withText("/opt/test/agent")) == 0 })
	daemon.Restart(d)
	d.whole()
}

// dockerAttack is one attack of TestSupervisorUnderAttack.
func (d *desk) dockerAttack(daemon *dockertest.Daemon, attack string) {
	d.Helper()
	r := d.start("/opt/test/agent", attack)
	r.await("agent| ready")
	sockets, _ := filepath.Glob(filepath.Join(daemon.Root, "volumes", "*"+r.session()+"*", "_data", "supervisor.sock"))
	if len(sockets) != 1 {
		d.Fatalf("sockets: %q", sockets)
	}
	answered, slowest := d.ask(sockets[0])
	d.Logf("%s: %d of %d questions answered, the slowest in %s", attack, answered, asked, slowest)
	if answered < asked || slowest > time.Second {
		d.Errorf("%s: the supervisor did not answer in time", attack)
	}
	d.must(r.cmd.Process.Signal(os.Interrupt))
	r.ends(0)
}
