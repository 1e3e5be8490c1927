package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

func TestStreams(t *testing.T) {
	h := newHarness(t)
	t.Run("empty input", func(t *testing.T) {
		_, out := h.run(h.spec("stdin"))
		want(t, out, `read ""`)
	})
	t.Run("apart", func(t *testing.T) {
		stdout, stderr := newOutput(), newOutput()
		c := h.start(h.spec("stderr", "bad"), sandbox.Streams{Stdout: stdout, Stderr: stderr})
		h.wait(c)
		if stdout.String() != "stderr bad: ok\n" || stderr.String() != "bad\n" {
			t.Errorf("stdout %q, stderr %q", stdout, stderr)
		}
	})
	t.Run("opened again", func(t *testing.T) {
		_, out := h.run(h.spec("write", "/dev/stdout", "again\n", "--", "write", "/dev/stderr", "more\n"))
		want(t, out, "again", "more")
	})
	t.Run("all of it is delivered", func(t *testing.T) {
		out := newOutput()
		c := h.start(h.spec("flood", "20000000", "--", "exit", "3"), sandbox.Streams{Stdout: out})
		if exit := h.wait(c); exit.Code != 3 || len(out.String()) != 20000000+len("flood 20000000: ok\n") {
			t.Errorf("exit %+v after %d bytes", exit, len(out.String()))
		}
	})
	t.Run("a writer that fails", func(t *testing.T) {
		c := h.start(h.spec("flood", "20000000"), sandbox.Streams{Stdout: &full{n: 1000}})
		exit, err := c.Wait(t.Context())
		if !errors.Is(err, errFull) || exit.Signal != int(unix.SIGPIPE) && exit.Code == 0 {
			t.Errorf("exit %+v, %v, want an end by the broken pipe, and the writer's error", exit, err)
		}
	})
	t.Run("hostile code cannot write its input", func(t *testing.T) {
		path := filepath.Join(h.dir, "log")
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("kept"); err != nil {
			t.Fatal(err)
		}
		out := newOutput()
		h.wait(h.start(h.spec("truncate", "0", "--", "write-fd", "0"), sandbox.Streams{Stdin: f, Stdout: out}))
		want(t, out.String(), "truncate 0: EINVAL", "write-fd 0: EBADF")
		if b, _ := os.ReadFile(path); string(b) != "kept" {
			t.Errorf("the file is %q", b)
		}
		// Nor what is in a file that its output goes to.
		h.wait(h.start(h.spec("truncate", "1"), sandbox.Streams{Stdout: f}))
		if b, _ := os.ReadFile(path); !strings.HasPrefix(string(b), "kepttruncate 1: EINVAL") {
			t.Errorf("the file is %q", b)
		}
	})
}

var errFull = errors.New("full")

// full is a writer that takes n bytes.
type full struct{ n int }

func (f *full) Write(b []byte) (int, error) {
	if f.n -= len(b); f.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}
