package daemon

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

const (
	stopDeadline = 30 * time.Second
	tickPeriod   = 20 * time.Millisecond
)

// LogVariable shows a daemon's log when its test has failed.
const LogVariable = "PROCTOR_TEST_DAEMON_LOG"

// Process is a daemon's process.
type Process struct {
	// Done is closed when it has ended, and Err is final.
	Done chan struct{}
	Err  error

	cmd *exec.Cmd
	log string
}

// Command is how a daemon is started.
type Command struct {
	Path string
	Args []string
	Env  []string // nil is the test's own
	Log  string
	// In runs it in a network of the test's; nil is the host's.
	In func(run func() error) error
}

// Launch starts the daemon from a thread that lives as long as it: the kernel
// sends the death signal when the thread ends, also when the test is killed.
func Launch(t testing.TB, c Command) *Process {
	t.Helper()
	f, err := os.Create(c.Log)
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd: exec.Command(c.Path, c.Args...), log: c.Log, Done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = c.Env, f, f
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer close(p.Done)
		defer func() { _ = f.Close() }()
		run := func() error {
			err := p.cmd.Start()
			started <- err
			if err == nil {
				err = p.cmd.Wait()
			}
			return err
		}
		if c.In == nil {
			p.Err = run()
			return
		}
		p.Err = c.In(run)
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", c.Path, err)
	}
	return p
}

// Kill ends it as a crash would.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.Done
}

// Stop ends it in order.
func (p *Process) Stop(t testing.TB) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopDeadline)
	defer timer.Stop()
	select {
	case <-p.Done:
	case <-timer.C:
		t.Errorf("%s did not end within %v", p.cmd.Path, stopDeadline)
		p.Kill()
	}
	if t.Failed() && os.Getenv(LogVariable) != "" {
		t.Logf("%s said:\n%s", p.cmd.Path, p.Log())
	}
}

// Log is what the daemon has said.
func (p *Process) Log() []byte {
	log, _ := os.ReadFile(p.log)
	return log
}
