package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	runc "github.com/containerd/go-runc"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/feed"
)

// stdio is a container's ends of its standard streams, and the copying between
// the launcher's ends and the caller's writers. It is go-runc's IO.
type stdio struct {
	stdin, stdout, stderr *os.File
	childEnds             []*os.File // closed once the runtime has them
	pumps                 []pump
	running               sync.WaitGroup
	crash                 sandbox.Crash
	failed                error // the first writer's, final once drained
	failedOnce            sync.Once
}

// pump copies what the container writes.
type pump struct {
	from *os.File
	to   io.Writer
}

// newStdio opens the streams. Pipes of our own belong to id, so that the
// container can open them again as /dev/stdout (id < 0: leave the owner).
func newStdio(spec sandbox.Spec, s sandbox.Streams, id int, crash sandbox.Crash) (_ *stdio, err error) {
	io := &stdio{crash: crash}
	defer func() {
		if err != nil {
			io.close()
		}
	}()
	if io.stdin, err = io.input(spec.Role, s.Stdin); err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	if io.stdout, err = io.output(spec.Role, s.Stdout, id); err != nil {
		return nil, fmt.Errorf("standard output: %w", err)
	}
	if s.Stderr != nil && feed.Same(s.Stdout, s.Stderr) {
		io.stderr = io.stdout
		return io, nil
	}
	if io.stderr, err = io.output(spec.Role, s.Stderr, id); err != nil {
		return nil, fmt.Errorf("standard error: %w", err)
	}
	return io, nil
}

// input is what the container reads. Hostile code is never given a descriptor
// that it could write, nor a terminal, on which it could also act as the
// operator: a file is opened again for reading.
func (s *stdio) input(role sandbox.Role, f *os.File) (*os.File, error) {
	if f == nil {
		null, err := os.Open(os.DevNull)
		s.childEnds = append(s.childEnds, null)
		return null, err
	}
	if !role.Hostile() {
		return f, nil
	}
	kind, err := fileKind(f)
	if err != nil {
		return nil, err
	}
	switch kind {
	case unix.S_IFIFO:
		return f, nil
	case unix.S_IFREG:
		ro, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		s.childEnds = append(s.childEnds, ro)
		return ro, err
	default:
		return nil, errors.New("a terminal, socket or device is not handed to hostile code")
	}
}

// output is where the container writes. Of the caller's files hostile code gets
// pipes only: a log file could be truncated, a terminal read.
func (s *stdio) output(role sandbox.Role, w io.Writer, id int) (*os.File, error) {
	if w == nil {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		s.childEnds = append(s.childEnds, null)
		return null, err
	}
	if f, ok := w.(*os.File); ok {
		kind, err := fileKind(f)
		if err != nil {
			return nil, err
		}
		if !role.Hostile() || kind == unix.S_IFIFO {
			return f, nil
		}
	}
	r, child, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.childEnds = append(s.childEnds, child)
	s.pumps = append(s.pumps, pump{r, w})
	if id >= 0 {
		return child, child.Chown(id, id)
	}
	return child, nil
}

func fileKind(f *os.File) (uint32, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	return st.Mode & unix.S_IFMT, nil
}

func (s *stdio) options(o *runc.CreateOpts) { o.IO = s }

// Set gives the streams to the runtime's process, which hands them on.
func (s *stdio) Set(cmd *exec.Cmd) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.stdin, s.stdout, s.stderr
}

// created closes the container's ends here and starts the copying.
func (s *stdio) created() error {
	for _, f := range s.childEnds {
		_ = f.Close()
	}
	s.childEnds = nil
	for _, p := range s.pumps {
		s.running.Go(s.crash.Guard(func() {
			if _, err := io.Copy(p.to, p.from); err != nil {
				s.failedOnce.Do(func() { s.failed = fmt.Errorf("deliver output: %w", err) })
			}
			// A writer that takes no more ends the container's stream too.
			_ = p.from.Close()
		}))
	}
	s.pumps = nil
	return nil
}

// drained waits until all that was written has been delivered. The last writer
// is gone when the container's pid namespace is. A writer's error is returned.
func (s *stdio) drained() error {
	s.running.Wait()
	return s.failed
}

func (s *stdio) close() {
	for _, f := range s.childEnds {
		_ = f.Close()
	}
	for _, p := range s.pumps {
		_ = p.from.Close()
	}
	s.childEnds, s.pumps = nil, nil
}

// Close, Stdin, Stdout and Stderr are what go-runc's IO has besides Set; the
// streams are not used through it.
func (s *stdio) Close() error          { return nil }
func (s *stdio) Stdin() io.WriteCloser { return nil }
func (s *stdio) Stdout() io.ReadCloser { return nil }
func (s *stdio) Stderr() io.ReadCloser { return nil }
