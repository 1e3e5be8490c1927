package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SocketPath is where an agent finds its supervisor.
const SocketPath = "/run/proctor/supervisor.sock"

// Exit statuses of the first process itself, beside the payload's own. The
// launcher learns from the engine only that the container ended with them.
const (
	ExitUnproved  = 125 // a mount is not what was asked, or the supervisor is not there or was lost
	ExitCannotRun = 126 // the payload could not be executed
	ExitNotFound  = 127 // the payload does not exist
)

// Config says what to prove and what to run. Everything in it comes from the launcher.
type Config struct {
	Argv   []string
	Dir    string
	Socket string // supervisor's socket; "" means none
	// Report is the supervisor's socket where no launcher watches: what the
	// payload ended with is said there, and this process ends with 0.
	Report string
	// Timeout and Grace end the payload; 0 leaves that to a launcher.
	Timeout  time.Duration
	Grace    time.Duration
	Lifeline bool     // end when Stdin ends
	ReadOnly []string // directories that must refuse writes
	Writable []string // directories that must take writes
	Entries  map[string]int
	Lay      []Lay
	Bridges  []Bridge // loopback ports that lead to the supervisor's doors
	Terminal bool
	Stdin    *os.File
	Stderr   io.Writer
}

// Run blocks until the payload has ended and returns the status to exit with.
func Run(ctx context.Context, cfg Config) int {
	if err := harden(); err != nil {
		return fail(cfg, ExitUnproved, err)
	}
	if err := prove(cfg); err != nil {
		return fail(cfg, ExitUnproved, err)
	}
	if err := layAll(cfg.Lay); err != nil {
		return fail(cfg, ExitUnproved, err)
	}
	doors, err := bridge(cfg.Bridges)
	if err != nil {
		return fail(cfg, ExitUnproved, err)
	}
	lost, closeLines, err := lifelines(ctx, cfg)
	if err != nil {
		doors.close()
		return fail(cfg, ExitUnproved, err)
	}
	defer closeLines()
	var line *reporter
	var stop <-chan struct{}
	if cfg.Report != "" {
		if line, err = holdLine(ctx, cfg.Report); err != nil {
			doors.close()
			return fail(cfg, ExitUnproved, err)
		}
		lost, stop = line.lost, line.stop
	}
	ctx, cancel := context.WithCancel(ctx)
	var carried sync.WaitGroup
	carried.Go(func() { doors.run(ctx) })
	defer carried.Wait()
	defer cancel()
	end := supervise(cfg, lost, stop)
	if line == nil || end.outcome == outcomeLost {
		return end.code
	}
	// Who comes next is let in by this report: nobody of this container may be
	// there to come first.
	if os.Getpid() == 1 {
		endAll()
	}
	if err := line.report(end, cfg.Argv); err != nil {
		return fail(cfg, ExitUnproved, err)
	}
	return 0
}

// ending is how the payload ended: the status to exit with, and in a word.
type ending struct {
	code    int
	outcome string
}

const (
	outcomeExited      = "exited"
	outcomeSignalled   = "signalled"
	outcomeTimeout     = "timeout"
	outcomeStopped     = "stopped" // by the operator
	outcomeStartFailed = "start-failed"
	outcomeLost        = "lost" // the supervisor; nobody is there to be told
)

func fail(cfg Config, code int, err error) int {
	_, _ = fmt.Fprintf(cfg.Stderr, "proctor-agent: error: %v\n", err)
	return code
}

// harden keeps the payload, which has the same identity, from tracing this
// process or reading its memory and descriptors.
func harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("set non-dumpable: %w", err)
	}
	return nil
}

// supervise starts the payload, relays signals to it and reaps every process
// that is handed to this one, until the payload itself has ended.
func supervise(cfg Config, lost <-chan error, stop <-chan struct{}) ending {
	signals, dropped := make(chan os.Signal, 64), make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH)
	// Sent by the payload, these would end this process with a status of their
	// choice: Go ends with 2 on a fatal signal. Unlike ignored ones, handled
	// signals are the payload's own again after its exec.
	signal.Notify(dropped, unix.SIGABRT, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, unix.SIGSTKFLT)
	defer signal.Stop(signals)
	defer signal.Stop(dropped)

	pid, err := start(cfg)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return ending{fail(cfg, ExitNotFound, err), outcomeStartFailed}
	case err != nil:
		return ending{fail(cfg, ExitCannotRun, err), outcomeStartFailed}
	}
	ended := make(chan ending, 1)
	go func() { ended <- reap(pid) }()
	var timeout, grace <-chan time.Time
	if cfg.Timeout > 0 {
		timer := time.NewTimer(cfg.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	early := ""
	end := func(why string) {
		if early == "" {
			early = why
			_ = unix.Kill(pid, unix.SIGTERM)
			grace = time.After(cfg.Grace)
		}
	}
	for {
		select {
		case e := <-ended:
			if early != "" {
				e.outcome = early
			}
			return e
		case <-timeout:
			end(outcomeTimeout)
		case <-stop:
			stop = nil
			end(outcomeStopped)
		case <-grace:
			_ = unix.Kill(pid, unix.SIGKILL)
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok {
				_ = unix.Kill(pid, n)
			}
		case cause := <-lost:
			// This process is the first of its namespace: when it ends, the
			// kernel ends every other one.
			_ = unix.Kill(pid, unix.SIGKILL)
			return ending{fail(cfg, ExitUnproved, cause), outcomeLost}
		}
	}
}

func start(cfg Config) (int, error) {
	path, err := lookPath(cfg.Argv[0])
	if err != nil {
		return 0, err
	}
	stdin := cfg.Stdin
	if cfg.Lifeline || stdin == nil {
		if stdin, err = os.Open(os.DevNull); err != nil {
			return 0, fmt.Errorf("open empty input: %w", err)
		}
		defer func() { _ = stdin.Close() }()
	}
	attr := &syscall.ProcAttr{
		Dir:   cfg.Dir,
		Env:   os.Environ(),
		Files: []uintptr{stdin.Fd(), 1, 2},
		Sys:   &syscall.SysProcAttr{},
	}
	if cfg.Terminal {
		attr.Sys.Setpgid, attr.Sys.Foreground, attr.Sys.Ctty = true, true, 0
	} else {
		attr.Sys.Setsid = true
	}
	pid, err := syscall.ForkExec(path, cfg.Argv, attr)
	if err != nil {
		return 0, fmt.Errorf("start %q: %w", cfg.Argv[0], err)
	}
	return pid, nil
}

// endAll kills every other process of the namespace and waits until none is left.
// One that is being forked meanwhile is met by the next round.
func endAll() {
	for {
		_ = unix.Kill(-1, unix.SIGKILL)
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return // ECHILD
		}
	}
}

// reap waits for every child until the given one has ended.
func reap(pid int) ending {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return ending{ExitUnproved, outcomeLost}
		case got != pid:
			continue
		case status.Signaled():
			return ending{128 + int(status.Signal()), outcomeSignalled}
		default:
			return ending{status.ExitStatus(), outcomeExited}
		}
	}
}
