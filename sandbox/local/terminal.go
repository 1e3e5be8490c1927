package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"github.com/containerd/console"
	runc "github.com/containerd/go-runc"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// streams is what a container has instead of the engine knowing whether it is
// on a terminal.
type streams interface {
	// options adds what the runtime must be told.
	options(*runc.CreateOpts)
	// created takes over what the runtime has made and starts the copying.
	created() error
	// drained waits until everything that was written has been delivered, or
	// could not be.
	drained() error
	// close gives up what was never started.
	close()
}

func (e *Engine) newStreams(spec sandbox.Spec, s sandbox.Streams) (streams, error) {
	if !spec.Terminal {
		return newStdio(spec, s, e.pipeOwner(spec.Identity), e.cfg.Crash)
	}
	if s.Terminal == nil {
		return nil, errors.New("the spec wants a terminal, and there is none")
	}
	socket, err := runc.NewTempConsoleSocket()
	if err != nil {
		return nil, fmt.Errorf("make console socket: %w", err)
	}
	return &terminal{own: s.Terminal, socket: socket, crash: e.cfg.Crash}, nil
}

// terminal copies between the launcher's terminal and the container's. The
// container has a pseudo-terminal of its own and never a descriptor of the
// launcher's, which it could make type for the operator (TIOCSTI) or reconfigure.
type terminal struct {
	own     *os.File
	socket  *runc.Socket
	pty     console.Console
	restore func()
	stop    *os.File // closing it ends the copying of input
	running sync.WaitGroup
	crash   sandbox.Crash
	closed  sync.Once
}

func (t *terminal) options(o *runc.CreateOpts) { o.ConsoleSocket = t.socket }

func (t *terminal) created() error {
	pty, err := t.socket.ReceiveMaster()
	if err != nil {
		return fmt.Errorf("receive the container's terminal: %w", err)
	}
	t.pty = pty
	own, err := console.ConsoleFromFile(t.own)
	if err != nil {
		return fmt.Errorf("the launcher's terminal: %w", err)
	}
	if err := t.pty.ResizeFrom(own); err != nil {
		return fmt.Errorf("set the terminal's size: %w", err)
	}
	if err := own.SetRaw(); err != nil {
		return fmt.Errorf("set the launcher's terminal to raw mode: %w", err)
	}
	t.restore = func() { _ = own.Reset() }
	stopped, stop, err := os.Pipe()
	if err != nil {
		return err
	}
	t.stop = stop
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH)
	output := make(chan struct{})
	t.running.Go(t.crash.Guard(func() {
		defer close(output)
		// Ends with an error when the last process that had the terminal is gone.
		_, _ = io.Copy(t.own, t.pty)
		_ = t.stop.Close()
	}))
	t.running.Go(t.crash.Guard(func() {
		defer stopped.Close()
		t.copyInput(stopped)
	}))
	t.running.Go(t.crash.Guard(func() {
		defer signal.Stop(changed)
		for {
			select {
			case <-changed:
				_ = t.pty.ResizeFrom(own)
			case <-output:
				return
			}
		}
	}))
	return nil
}

// copyInput reads the launcher's terminal only when there is something to read,
// so that it can stop without taking a key that is meant for the next reader.
func (t *terminal) copyInput(stopped *os.File) {
	buf := make([]byte, 4096)
	for {
		polled := []unix.PollFd{{Fd: int32(t.own.Fd()), Events: unix.POLLIN}, {Fd: int32(stopped.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(polled, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil || polled[1].Revents != 0 {
			return
		}
		n, err := t.own.Read(buf)
		if n > 0 {
			if _, err := t.pty.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (t *terminal) drained() error {
	t.running.Wait()
	t.close()
	return nil
}

func (t *terminal) close() {
	t.closed.Do(func() {
		if t.restore != nil {
			t.restore()
		}
		if t.pty != nil {
			_ = t.pty.Close()
		}
		_ = t.socket.Close()
	})
}
