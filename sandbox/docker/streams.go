package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox/feed"
)

// attached is the connection to a container's standard streams. It is made
// before the start, so that nothing is lost, and it is the container's
// lifeline: when this process dies, the daemon sees the connection end and, by
// StdinOnce, closes the container's input.
type attached struct {
	c        *Container
	conn     client.HijackedResponse
	terminal bool

	cancel context.CancelFunc
	input  *feed.Input // nil without one
	out    chan error
	wait   sync.WaitGroup
}

func (c *Container) attach(ctx context.Context) (*attached, error) {
	a := &attached{c: c, terminal: c.spec.Terminal, out: make(chan error, 1), cancel: func() {}}
	in := c.streams.Stdin
	if a.terminal {
		if in = c.streams.Terminal; in == nil {
			return nil, errors.New("a container with a terminal was given none")
		}
	}
	if in != nil {
		var err error
		if a.input, err = feed.New(in); err != nil {
			return nil, err
		}
	}
	res, err := c.engine.api.ContainerAttach(ctx, c.id, client.ContainerAttachOptions{
		Stream: true, Stdin: in != nil, Stdout: true, Stderr: !a.terminal,
	})
	if err != nil {
		if a.input != nil {
			a.input.Close()
		}
		return nil, fmt.Errorf("attach: %w", err)
	}
	a.conn = res.HijackedResponse
	return a, nil
}

// start copies until the streams end. finish or close must follow.
func (a *attached) start() {
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	a.wait.Go(a.c.engine.cfg.Crash.Guard(func() { a.out <- a.copyOut() }))
	if a.input != nil {
		a.wait.Go(a.c.engine.cfg.Crash.Guard(func() {
			_ = a.input.CopyTo(a.conn.Conn)
			_ = a.conn.CloseWrite()
		}))
	}
	if a.terminal {
		a.wait.Go(a.c.engine.cfg.Crash.Guard(func() { a.followSize(ctx) }))
	}
}

// copyOut reads to the end also when a writer fails, so that the container
// never blocks on its output.
func (a *attached) copyOut() error {
	var err error
	if a.terminal {
		_, err = io.Copy(a.c.streams.Terminal, a.conn.Reader)
	} else {
		_, err = stdcopy.StdCopy(orDiscard(a.c.streams.Stdout), orDiscard(a.c.streams.Stderr), a.conn.Reader)
	}
	if err != nil {
		_, _ = io.Copy(io.Discard, a.conn.Reader)
	}
	return err
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// stop ends the copying of input and of sizes. Output goes on.
func (a *attached) stop() {
	a.cancel()
	if a.input != nil {
		a.input.Stop()
	}
}

// finish waits for the rest of the output, a bounded time, and ends everything.
func (a *attached) finish(limit time.Duration) error {
	a.stop()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case err = <-a.out:
	case <-timer.C:
		err = fmt.Errorf("the daemon did not end the output within %v", limit)
	}
	a.close()
	return err
}

// close ends the connection and waits for what start started.
func (a *attached) close() {
	a.stop()
	a.conn.Close()
	a.wait.Wait()
	if a.input != nil {
		a.input.Close()
	}
}

// followSize gives the container the size of the launcher's terminal, now and
// at every change.
func (a *attached) followSize(ctx context.Context) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, unix.SIGWINCH)
	defer signal.Stop(changes)
	for {
		if size, err := feed.Size(a.c.streams.Terminal); err == nil {
			_, _ = a.c.engine.api.ContainerResize(ctx, a.c.id, client.ContainerResizeOptions{Height: uint(size.Row), Width: uint(size.Col)})
		}
		select {
		case <-ctx.Done():
			return
		case <-changes:
		}
	}
}
