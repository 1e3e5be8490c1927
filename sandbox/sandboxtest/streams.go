package sandboxtest

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// testInput: every byte arrives, then the end; none is an empty input; and a
// container that does not read ends all the same.
func (s *suite) testInput(t *testing.T) {
	text := make([]byte, 1<<20)
	if _, err := rand.Read(text); err != nil {
		t.Fatal(err)
	}
	r, w := pipe(t)
	var out bytes.Buffer
	c := s.start(t, s.spec(sandbox.RoleSeal, "cat"), sandbox.Streams{Stdin: r, Stdout: &out})
	_ = r.Close() // the engine has its own by now
	if _, err := io.Copy(w, bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if exit, err := c.Wait(testContext(t)); err != nil || exit.Code != 0 {
		t.Fatalf("cat ended with %+v, %v", exit, err)
	}
	if !bytes.Equal(out.Bytes(), text) {
		t.Errorf("%d of %d bytes came back, or others", out.Len(), len(text))
	}
	if got := s.run(t, s.spec(sandbox.RoleSeal, "cat")); got.exit.Code != 0 || got.stdout != "" {
		t.Errorf("without input cat ended with %+v %q", got.exit, got.stdout)
	}
	// The other end stays open, and is not waited for.
	r, _ = pipe(t)
	c = s.start(t, s.spec(sandbox.RoleSeal, "exit", "5"), sandbox.Streams{Stdin: r})
	if exit, err := c.Wait(testContext(t)); err != nil || exit.Code != 5 {
		t.Errorf("with an idle input: %+v, %v", exit, err)
	}
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	return r, w
}

// testTerminal: the container has a terminal of the launcher's size.
func (s *suite) testTerminal(t *testing.T) {
	master, slave := openTerminal(t, 33, 77)
	spec := s.spec(sandbox.RoleAgent, "try", "terminal")
	spec.Terminal = true
	c := s.start(t, spec, sandbox.Streams{Terminal: slave})
	output := make(chan string, 1)
	go func() {
		buf := make([]byte, 4096)
		var text strings.Builder
		for !strings.Contains(text.String(), "}]") {
			n, err := master.Read(buf)
			if err != nil {
				break
			}
			text.Write(buf[:n])
		}
		output <- text.String()
	}()
	if exit, err := c.Wait(testContext(t)); err != nil || exit.Code != 0 {
		t.Errorf("ended with %+v, %v", exit, err)
	}
	select {
	case text := <-output:
		if !strings.Contains(text, `"value":[33,77]`) {
			t.Errorf("the container says %q", text)
		}
	case <-testContext(t).Done():
		t.Error("the container's output did not come")
	}
	// The control: without one there is none.
	want(t, s.try(t, s.spec(sandbox.RoleAgent), op{"terminal"}), "ENOTTY")
}

// openTerminal makes a pseudo terminal in raw mode.
func openTerminal(t testing.TB, rows, cols uint16) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	raw, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	raw.Lflag &^= unix.ECHO | unix.ICANON
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, raw); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		t.Fatal(err)
	}
	return master, slave
}
