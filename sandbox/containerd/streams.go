package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/feed"
)

// streams are a container's named pipes, which its shim opens, and the copying
// between them and the launcher's own ends. The pipe of the input is the
// container's lifeline: once the shim has been told to close its own writing
// end, the launcher has the only one.
type streams struct {
	terminal *os.File
	crash    sandbox.Crash
	config   cio.Config

	writer *os.File    // of the input
	input  *feed.Input // what is copied to it
	pumps  []pump

	cancel  context.CancelFunc
	out     chan error
	running sync.WaitGroup
}

// pump copies what the container writes.
type pump struct {
	from *os.File
	to   io.Writer
}

func newStreams(dir string, spec sandbox.Spec, given sandbox.Streams, crash sandbox.Crash) (_ *streams, err error) {
	s := &streams{crash: crash, cancel: func() {}, config: cio.Config{Terminal: spec.Terminal}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	in := given.Stdin
	if spec.Terminal {
		if given.Terminal == nil {
			return nil, errors.New("a container with a terminal was given none")
		}
		s.terminal, in, given.Stdout, given.Stderr = given.Terminal, given.Terminal, given.Terminal, nil
	}
	if in != nil {
		if s.input, err = feed.New(in); err != nil {
			return nil, err
		}
		s.config.Stdin = filepath.Join(dir, "stdin")
		// For reading, too, until the shim has opened it: else it could not be
		// opened for writing.
		if s.writer, err = openPipe(s.config.Stdin, os.O_RDWR); err != nil {
			return nil, err
		}
	}
	if s.config.Stdout, err = s.output(dir, "stdout", given.Stdout); err != nil {
		return nil, err
	}
	switch {
	case spec.Terminal:
		return s, nil
	case feed.Same(given.Stdout, given.Stderr):
		s.config.Stderr = s.config.Stdout
		return s, nil
	}
	s.config.Stderr, err = s.output(dir, "stderr", given.Stderr)
	return s, err
}

func (s *streams) output(dir, name string, to io.Writer) (string, error) {
	if to == nil {
		to = io.Discard // a shim wants both or neither
	}
	path := filepath.Join(dir, name)
	from, err := openPipe(path, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	s.pumps = append(s.pumps, pump{from, to})
	return path, nil
}

func openPipe(path string, how int) (*os.File, error) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	f, err := os.OpenFile(path, how|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open pipe: %w", err)
	}
	return f, nil
}

// start takes over when the shim has opened its ends, and copies until the
// streams end. finish or close must follow.
func (s *streams) start(ctx context.Context, task client.Task) error {
	s.out = make(chan error, len(s.pumps))
	for _, p := range s.pumps {
		s.running.Go(s.crash.Guard(func() { s.out <- p.copy() }))
	}
	if s.input == nil {
		return nil
	}
	writer, err := os.OpenFile(s.config.Stdin, os.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open pipe: %w", err)
	}
	_ = s.writer.Close()
	s.writer = writer
	if err := task.CloseIO(ctx, client.WithStdinCloser); err != nil {
		return fmt.Errorf("close the shim's end of the input: %w", err)
	}
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	s.running.Go(s.crash.Guard(func() {
		_ = s.input.CopyTo(writer)
		_ = writer.Close()
	}))
	if s.terminal != nil {
		s.running.Go(s.crash.Guard(func() { s.followSize(following, task) }))
	}
	return nil
}

// copy reads to the end also when the writer fails, so that the container never
// blocks on its output.
func (p pump) copy() error {
	_, err := io.Copy(p.to, p.from)
	if err != nil {
		_, _ = io.Copy(io.Discard, p.from)
	}
	return err
}

// stop ends the copying of input and of sizes. Output goes on.
func (s *streams) stop() {
	s.cancel()
	if s.input != nil {
		s.input.Stop()
	}
	if s.writer != nil {
		_ = s.writer.SetWriteDeadline(time.Now()) // the shim may read no more
	}
}

// finish waits for the rest of the output, a bounded time, and ends everything.
func (s *streams) finish(limit time.Duration) error {
	s.stop()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var errs []error
	for range s.pumps {
		select {
		case err := <-s.out:
			errs = append(errs, err)
		case <-timer.C:
			s.close()
			return fmt.Errorf("the shim did not end the output within %v", limit)
		}
	}
	s.close()
	return errors.Join(errs...)
}

// close ends everything and waits for what start started.
func (s *streams) close() {
	s.stop()
	for _, p := range s.pumps {
		_ = p.from.SetReadDeadline(time.Now())
	}
	s.running.Wait()
	for _, p := range s.pumps {
		_ = p.from.Close()
	}
	s.pumps = nil
	if s.writer != nil {
		_ = s.writer.Close()
	}
	if s.input != nil {
		s.input.Close()
		s.input = nil
	}
}

// followSize gives the container the size of the launcher's terminal, now and
// at every change.
func (s *streams) followSize(ctx context.Context, task client.Task) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, unix.SIGWINCH)
	defer signal.Stop(changes)
	for {
		if size, err := feed.Size(s.terminal); err == nil {
			_ = task.Resize(ctx, uint32(size.Col), uint32(size.Row))
		}
		select {
		case <-ctx.Done():
			return
		case <-changes:
		}
	}
}

// Config, Cancel, Wait and Close are cio.IO. The client's own copying is not
// used: it would neither tell a writer's error nor ever let go of the input.
func (s *streams) Config() cio.Config { return s.config }
func (s *streams) Cancel()            {}
func (s *streams) Wait()              {}
func (s *streams) Close() error       { return nil }
