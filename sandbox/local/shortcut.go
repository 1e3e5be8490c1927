package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox/kernel"
)

// This file does by itself what `runc start` and `runc delete` do to a
// container that is this process's child. Each of them would be one more start
// of a large program, and a session has half a dozen containers: together they
// cost more than the container itself. The state directory's layout is runc's
// own matter, so anything unexpected goes to the real commands.

// execFifo is where runc's init waits: it opens the FIFO for writing, which
// blocks until somebody reads, writes one byte, and executes the payload.
const execFifo = "exec.fifo"

// pollInterval bounds how long a cancelled context goes unnoticed, in
// milliseconds.
const pollInterval = 100

func (c *container) stateDir() string { return filepath.Join(c.runtime.root, c.Name()) }

// releaseRunc is `runc start`.
func (c *container) releaseRunc(ctx context.Context) error {
	path := filepath.Join(c.stateDir(), execFifo)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return c.runtime.start(ctx, c.Name())
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", execFifo, err)
	}
	fifo := os.NewFile(uintptr(fd), path)
	defer fifo.Close()
	for {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(c.pidfd.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(polled, pollInterval); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if polled[0].Revents&unix.POLLIN != 0 {
			break
		}
		if polled[1].Revents != 0 {
			return errors.New("the container's first process is gone")
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if n, err := unix.Read(fd, make([]byte, 1)); n != 1 {
		return fmt.Errorf("read %s: %w", execFifo, err)
	}
	return os.Remove(path)
}

// discardState is `runc delete` of a container whose first process has been
// waited for: its pid namespace is gone, and with it every process. What a
// runtime other than runc, or a failed creation, has left is its own to delete.
func (c *container) discardState(ctx context.Context) error {
	if c.runtime == nil {
		return nil
	}
	if c.bundle.onRunsc() {
		return c.discardRunsc(ctx)
	}
	if _, err := os.Stat(c.stateDir()); err != nil {
		return nil //nolint:nilerr // nothing was made
	}
	if c.pidfd == nil {
		return c.runtime.remove(ctx, c.Name())
	}
	return os.RemoveAll(c.stateDir())
}

// discardRunsc is `runsc delete`, and takes the exit status of the gofer, which
// has become this process's child as well.
func (c *container) discardRunsc(ctx context.Context) error {
	state, stateErr := c.engine.readRunscState(c.bundle)
	left, err := filepath.Glob(filepath.Join(c.runtime.root, c.Name()+"_sandbox:*"))
	if err == nil && len(left) > 0 {
		err = c.runtime.remove(ctx, c.Name())
	}
	if stateErr == nil {
		err = errors.Join(err, kernel.KillAndAwait(ctx, state.GoferPid))
		_, _ = unix.Wait4(state.GoferPid, nil, unix.WNOHANG, nil)
	}
	left, _ = filepath.Glob(filepath.Join(c.runtime.root, c.Name()+"_sandbox:*"))
	for _, path := range left {
		_ = os.Remove(path) // the lock
	}
	return err
}
