package containerdtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/daemon"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
)

const (
	// DirVariable names the directory of the containerd that is to be tested.
	DirVariable = "PROCTOR_TEST_CONTAINERD"
	// AddressVariable names a daemon that is already there.
	AddressVariable = "PROCTOR_TEST_CONTAINERD_ADDRESS"
)

const (
	readyDeadline = 60 * time.Second
	tickPeriod    = 20 * time.Millisecond
)

// Daemon is a running containerd.
type Daemon struct {
	// Address is its socket's path.
	Address string
	// Root and State are its directories, "" for a daemon that was there.
	Root, State string

	path, dir string
	process   *daemon.Process
}

// Start returns a daemon that is ready and ends with the test.
func Start(t testing.TB) *Daemon {
	t.Helper()
	if address := os.Getenv(AddressVariable); address != "" {
		d := &Daemon{Address: address}
		d.awaitReady(t)
		return d
	}
	path := filepath.Join(os.Getenv(DirVariable), "containerd")
	if os.Getenv(DirVariable) == "" {
		var err error
		if path, err = exec.LookPath("containerd"); err != nil {
			need.That(t, false, "containerd is not installed")
		}
	}
	if os.Geteuid() != 0 {
		need.That(t, false, "a private containerd needs root")
	}
	dir, err := os.MkdirTemp("", "proctor-containerd-") // short: a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { daemon.Clean(t, dir, "") })
	if err := os.Chmod(dir, 0o711); err != nil { // as /run: ids of containers pass it
		t.Fatal(err)
	}
	d := &Daemon{
		Address: filepath.Join(dir, "sock"), Root: filepath.Join(dir, "data"), State: filepath.Join(dir, "state"),
		path: path, dir: dir,
	}
	if err := os.WriteFile(d.config(), []byte(d.configuration(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.process.Stop(t) })
	d.start(t)
	return d
}

func (d *Daemon) config() string { return filepath.Join(d.dir, "config.toml") }

// configuration is a daemon without what reaches beyond its directories: no
// Kubernetes, no NRI. An older daemon does not know the newer form.
func (d *Daemon) configuration(t testing.TB) string {
	t.Helper()
	out, err := exec.Command(d.path, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", d.path, err)
	}
	version, off := 3, []string{"io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri"}
	if fields := strings.Fields(string(out)); len(fields) > 2 && strings.HasPrefix(strings.TrimPrefix(fields[2], "v"), "1.") {
		version, off = 2, []string{"io.containerd.grpc.v1.cri"}
	}
	return fmt.Sprintf(`version = %d
root = %q
state = %q
disabled_plugins = ["%s"]
[grpc]
address = %q
[plugins."io.containerd.internal.v1.opt"]
path = %q
`, version, d.Root, d.State, strings.Join(off, `", "`), d.Address, filepath.Join(d.dir, "opt"))
}

func (d *Daemon) start(t testing.TB) {
	t.Helper()
	// Its shims are the ones beside it.
	env := append(os.Environ(), "PATH="+filepath.Dir(d.path)+":"+os.Getenv("PATH"))
	d.process = daemon.Launch(t, daemon.Command{
		Path: d.path, Args: []string{"--config", d.config()}, Env: env, Log: filepath.Join(d.dir, "log"),
	})
	d.awaitReady(t)
}

// Kill ends a private daemon with SIGKILL, as a crash would. Its containers go
// on. Restart must follow.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	need.That(t, d.process != nil, "the daemon is not the test's own")
	d.process.Kill()
}

// Restart starts the daemon again on the same data.
func (d *Daemon) Restart(t testing.TB) {
	t.Helper()
	d.start(t)
}

// awaitReady asks the daemon until it answers.
func (d *Daemon) awaitReady(t testing.TB) {
	t.Helper()
	api, err := client.New(d.Address, client.WithDefaultNamespace("proctor"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = api.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), readyDeadline)
	defer cancel()
	tick := time.NewTicker(tickPeriod)
	defer tick.Stop()
	ended := make(chan struct{}) // never, for a daemon that is not ours
	if d.process != nil {
		ended = d.process.Done
	}
	for {
		_, err := api.Version(ctx)
		if err == nil {
			return
		}
		select {
		case <-ended:
			t.Fatalf("containerd ended: %v\n%s", d.process.Err, d.process.Log())
		case <-ctx.Done():
			t.Fatalf("no containerd answers at %s: %v", d.Address, err)
		case <-tick.C:
		}
	}
}
