package feed

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Input reads a file until its end or until it is told to stop. A plain read
// cannot be told: the launcher's end of a pipe may stay open long after the
// container ended.
type Input struct {
	fd   int // a duplicate: the caller may close its file
	wake [2]int
}

// New takes a duplicate of the file.
func New(f *os.File) (*Input, error) {
	in := &Input{fd: -1}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	var dupErr error
	err = raw.Control(func(fd uintptr) { in.fd, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(err, dupErr); err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	if err := unix.Pipe2(in.wake[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		_ = unix.Close(in.fd)
		return nil, fmt.Errorf("open input: %w", err)
	}
	return in, nil
}

// Stop makes CopyTo return. It must not be called after Close.
func (in *Input) Stop() { _, _ = unix.Write(in.wake[1], []byte{0}) }

// Close must be called when CopyTo has returned.
func (in *Input) Close() {
	for _, fd := range []int{in.fd, in.wake[0], in.wake[1]} {
		_ = unix.Close(fd)
	}
}

// CopyTo returns at the input's end, at an error, or after Stop.
func (in *Input) CopyTo(w io.Writer) error {
	buf := make([]byte, 32<<10)
	for {
		fds := []unix.PollFd{{Fd: int32(in.fd), Events: unix.POLLIN}, {Fd: int32(in.wake[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for input: %w", err)
		}
		if fds[1].Revents != 0 {
			return nil
		}
		if fds[0].Revents == 0 {
			continue
		}
		n, err := unix.Read(in.fd, buf)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read input: %w", err)
		case n <= 0:
			return nil
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return fmt.Errorf("write input: %w", err)
		}
	}
}
