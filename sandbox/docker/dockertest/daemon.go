package dockertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/daemon"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
)

// HostVariable names a daemon that is already there.
const HostVariable = "PROCTOR_TEST_DOCKER_HOST"

const (
	readyDeadline = 60 * time.Second
	tickPeriod    = 20 * time.Millisecond
)

// Daemon is a running Docker daemon.
type Daemon struct {
	// Host is its address, unix:///path.
	Host string
	// PinnedRunc is the daemon's name for the runc of the user's cache
	// (proctor/bin/runc), or "" if there is none.
	PinnedRunc string
	// Root is its data directory, "" for a daemon that was already there.
	Root string

	path, dir string
	args      []string
	in        func(run func() error) error
	process   *daemon.Process
}

// Start returns a daemon that is ready and ends with the test.
func Start(t testing.TB) *Daemon {
	t.Helper()
	if host := os.Getenv(HostVariable); host != "" {
		d := &Daemon{Host: host, PinnedRunc: os.Getenv(HostVariable + "_RUNC")}
		d.awaitReady(t, nil)
		return d
	}
	return StartIn(t, func(run func() error) error { return run() })
}

// StartIn starts a daemon of the test's own in a network of the test's: what
// is run by in is there.
func StartIn(t testing.TB, in func(run func() error) error) *Daemon {
	t.Helper()
	path, err := exec.LookPath("dockerd")
	if err != nil {
		need.That(t, false, "dockerd is not installed")
	}
	if os.Geteuid() != 0 {
		need.That(t, false, "a private dockerd needs root")
	}
	dir, err := os.MkdirTemp("", "proctor-dockerd-") // short: a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	cgroup := "proctor-test-" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() { daemon.Clean(t, dir, cgroup) })
	d := &Daemon{Host: "unix://" + filepath.Join(dir, "docker.sock"), Root: filepath.Join(dir, "data")}
	args := []string{
		"--data-root", d.Root, "--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"--host", d.Host, "--cgroup-parent", "/" + cgroup, "--config-file", filepath.Join(dir, "daemon.json"),
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
	}
	if runc := pinnedRunc(); runc != "" {
		d.PinnedRunc = "proctor-runc"
		args = append(args, "--add-runtime", d.PinnedRunc+"="+runc)
	}
	if err := os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.path, d.dir, d.args, d.in = path, dir, args, in
	t.Cleanup(func() { d.process.Stop(t) })
	d.start(t)
	return d
}

func (d *Daemon) start(t testing.TB) {
	t.Helper()
	d.process = daemon.Launch(t, daemon.Command{Path: d.path, Args: d.args, Log: filepath.Join(d.dir, "log"), In: d.in})
	d.awaitReady(t, d.process)
}

// Kill ends a private daemon with SIGKILL, as a crash would. Its containers may
// go on. Restart must follow, or they are left to it.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	need.That(t, d.process != nil, "the daemon is not the test's own")
	d.process.Kill()
}

// Restart starts the daemon again on the same data.
func (d *Daemon) Restart(t testing.TB) {
	t.Helper()
	daemon.EndWith(t, d.dir, "containerd.toml")
	for _, file := range []string{"pid", "exec/containerd/containerd.pid"} {
		_ = os.Remove(filepath.Join(d.dir, file))
	}
	d.start(t)
}

func pinnedRunc() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	path := filepath.Join(cache, "proctor", "bin", "runc")
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	return path
}

// awaitReady asks the daemon until it answers.
func (d *Daemon) awaitReady(t testing.TB, p *daemon.Process) {
	t.Helper()
	socket := strings.TrimPrefix(d.Host, "unix://")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), readyDeadline)
	defer cancel()
	tick := time.NewTicker(tickPeriod)
	defer tick.Stop()
	ended := make(chan struct{}) // never, for a daemon that is not ours
	if p != nil {
		ended = p.Done
	}
	for {
		err := ping(ctx, transport)
		if err == nil {
			return
		}
		select {
		case <-ended:
			t.Fatalf("dockerd ended: %v\n%s", p.Err, p.Log())
		case <-ctx.Done():
			t.Fatalf("no docker daemon answers at %s: %v", d.Host, err)
		case <-tick.C:
		}
	}
}

func ping(ctx context.Context, transport http.RoundTripper) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}
