package feed

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Same reports whether both streams go to one writer. Writers of types
// that cannot be compared are different.
func Same(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// Size is a terminal's.
func Size(f *os.File) (*unix.Winsize, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var size *unix.Winsize
	var sizeErr error
	err = raw.Control(func(fd uintptr) { size, sizeErr = unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ) })
	return size, errors.Join(err, sizeErr)
}
