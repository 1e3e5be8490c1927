package local

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// openPTY returns both ends of a new terminal: the test is the human at ours.
func openPTY(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close(); _ = ours.Close() })
	return ours, theirs
}

func TestTerminal(t *testing.T) {
	h := newHarness(t)
	human, own := openPTY(t)
	if err := unix.IoctlSetWinsize(int(own.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}); err != nil {
		t.Fatal(err)
	}
	before, err := unix.IoctlGetTermios(int(own.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	out := newOutput()
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 1024)
		for {
			n, err := human.Read(buf)
			_, _ = out.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	spec := h.spec("size", "--", "line", "--", "winch", "--", "exit", "4")
	spec.Terminal = true
	c := h.start(spec, sandbox.Streams{Terminal: own})
	out.await(t, "size 77x33")
	if _, err := human.WriteString("typed\r"); err != nil {
		t.Fatal(err)
	}
	out.await(t, `line "typed\n"`)
	out.await(t, "waiting")
	if err := unix.IoctlSetWinsize(int(own.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 20}); err != nil {
		t.Fatal(err)
	}
	// The kernel sends this to the terminal's own foreground processes; the
	// test has none there.
	if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	out.await(t, "size 20x10")
	if exit := h.wait(c); exit.Code != 4 {
		t.Errorf("exit is %+v, want 4", exit)
	}
	after, err := unix.IoctlGetTermios(int(own.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the launcher's terminal is left as %+v, %v, want %+v", after, err, before)
	}
	// What is typed now is for the next reader.
	if _, err := human.WriteString("next\r"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n, err := own.Read(buf); err != nil || string(buf[:n]) != "next\n" {
		t.Errorf("the next reader gets %q, %v", buf[:n], err)
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.nothingLeft(spec)
	_ = own.Close()
	<-read
}
