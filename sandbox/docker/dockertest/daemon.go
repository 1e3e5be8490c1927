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
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// HostVariable names a daemon that is already there.
const HostVariable = "PROCTOR_TEST_DOCKER_HOST"

const (
	readyDeadline = 60 * time.Second
	stopDeadline  = 30 * time.Second
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
	process   *process
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
		need(t, "dockerd is not installed")
	}
	if os.Geteuid() != 0 {
		need(t, "a private dockerd needs root")
	}
	dir, err := os.MkdirTemp("", "proctor-dockerd-") // short: a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	cgroup := "proctor-test-" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() { clean(t, dir, cgroup) })
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
	t.Cleanup(func() { d.process.stop(t) })
	d.start(t)
	return d
}

func (d *Daemon) start(t testing.TB) {
	t.Helper()
	d.process = launch(t, d.in, d.path, d.args, filepath.Join(d.dir, "log"))
	d.awaitReady(t, d.process)
}

// Kill ends a private daemon with SIGKILL, as a crash would. Its containers may
// go on. Restart must follow, or they are left to it.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	if d.process == nil {
		t.Skip("the daemon is not the test's own")
	}
	_ = d.process.cmd.Process.Kill()
	<-d.process.done
}

// Restart starts the daemon again on the same data.
func (d *Daemon) Restart(t testing.TB) {
	t.Helper()
	endWith(t, d.dir, "containerd.toml")
	for _, file := range []string{"pid", "exec/containerd/containerd.pid"} {
		_ = os.Remove(filepath.Join(d.dir, file))
	}
	d.start(t)
}

// need ends the test: a missing requirement is a failure where CI is set.
func need(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
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

// process is the daemon's process.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error
}

// launch starts the daemon from a thread that lives as long as it: the kernel
// sends the death signal when the thread ends, also when the test is killed.
func launch(t testing.TB, in func(run func() error) error, path string, args []string, log string) *process {
	t.Helper()
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(path, args...), log: log, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = f, f
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer close(p.done)
		defer func() { _ = f.Close() }()
		p.err = in(func() error {
			err := p.cmd.Start()
			started <- err
			if err == nil {
				err = p.cmd.Wait()
			}
			return err
		})
	}()
	if err := <-started; err != nil {
		t.Fatalf("start dockerd: %v", err)
	}
	return p
}

func (p *process) stop(t testing.TB) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopDeadline)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		t.Errorf("dockerd did not end within %v", stopDeadline)
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	if t.Failed() && os.Getenv("PROCTOR_TEST_DOCKER_LOG") != "" {
		if log, err := os.ReadFile(p.log); err == nil {
			t.Logf("dockerd said:\n%s", log)
		}
	}
}

// awaitReady asks the daemon until it answers.
func (d *Daemon) awaitReady(t testing.TB, p *process) {
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
		ended = p.done
	}
	for {
		err := ping(ctx, transport)
		if err == nil {
			return
		}
		select {
		case <-ended:
			log, _ := os.ReadFile(p.log)
			t.Fatalf("dockerd ended: %v\n%s", p.err, log)
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
