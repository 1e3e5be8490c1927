package sandboxtest

import (
	"bytes"
	"errors"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

func (s *suite) testExitCodes(t *testing.T) {
	for _, code := range []int{0, 1, 2, 3, 42, 125, 126, 127, 255} {
		got := s.run(t, s.spec(sandbox.RoleCheck, "exit", strconv.Itoa(code)))
		if got.exit.Code != code || got.exit.OOM {
			t.Errorf("exit %d was reported as %+v", code, got.exit)
		}
		if got.exit.Started.IsZero() || got.exit.Finished.Before(got.exit.Started) || time.Since(got.exit.Finished) > time.Minute {
			t.Errorf("exit %d: started %v, finished %v", code, got.exit.Started, got.exit.Finished)
		}
	}
}

// testSignals: Stop gives a grace, Kill none; both are told from an exit.
func (s *suite) testSignals(t *testing.T) {
	ctx := testContext(t)
	obeying, _ := s.ready(t, s.spec(sandbox.RoleAgent, "wait"), sandbox.Streams{})
	if err := obeying.Stop(ctx); err != nil {
		t.Error(err)
	}
	if exit, err := obeying.Wait(ctx); err != nil || exit.Code != 7 || exit.Signal != 0 {
		t.Errorf("a process that obeys SIGTERM ended with %+v, %v", exit, err)
	}
	spec := s.spec(sandbox.RoleAgent, "ignore")
	spec.Grace = 300 * time.Millisecond
	stubborn, _ := s.ready(t, spec, sandbox.Streams{})
	before := time.Now()
	if err := stubborn.Stop(ctx); err != nil {
		t.Error(err)
	}
	took := time.Since(before)
	for range 2 { // Wait can be called again
		if exit, err := stubborn.Wait(ctx); err != nil || exit.Code != 137 || exit.Signal != int(unix.SIGKILL) {
			t.Errorf("a process that ignores SIGTERM ended with %+v, %v", exit, err)
		}
	}
	if took < spec.Grace || took > 10*time.Second {
		t.Errorf("stopping with a grace of %v took %v", spec.Grace, took)
	}
	for range 2 { // both are fine when there is nothing to do
		if err := errors.Join(stubborn.Stop(ctx), stubborn.Kill(ctx)); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := stubborn.Remove(ctx); err != nil {
			t.Error(err)
		}
	}
}

// testStartFailure: what cannot be executed is never a success.
func (s *suite) testStartFailure(t *testing.T) {
	for _, program := range []string{"/no/such/program", "/etc"} {
		spec := s.spec(sandbox.RoleCheck)
		spec.Argv = []string{program}
		c, err := s.engine.Create(testContext(t), spec, sandbox.Streams{})
		if err != nil {
			continue
		}
		if err = c.Start(testContext(t)); err == nil {
			if exit, err := c.Wait(testContext(t)); err == nil && exit.Code == 0 {
				t.Errorf("%s ended with success", program)
			}
		}
		remove(t, c)
	}
	c := s.create(t, s.spec(sandbox.RoleCheck, "exit", "0"), sandbox.Streams{})
	ctx := testContext(t)
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(ctx); err == nil {
		t.Error("a container was started twice")
	}
	if exit, err := c.Wait(ctx); err != nil || exit.Code != 0 {
		t.Errorf("the control ended with %+v, %v", exit, err)
	}
}

// failing is a writer that fails after its first bytes.
type failing struct{ left int }

var errWriter = errors.New("the writer failed")

func (w *failing) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errWriter
	}
	return len(p), nil
}

// testOutput: all of it, each to its own writer; and a writer that fails does
// not hold up the container or pass for success.
func (s *suite) testOutput(t *testing.T) {
	const size = 8 << 20
	var stdout, stderr bytes.Buffer
	c := s.start(t, s.spec(sandbox.RoleCheck, "flood", strconv.Itoa(size)), sandbox.Streams{Stdout: &stdout, Stderr: &stderr})
	if exit, err := c.Wait(testContext(t)); err != nil || exit.Code != 0 {
		t.Fatalf("flood ended with %+v, %v", exit, err)
	}
	if n := bytes.Count(stdout.Bytes(), []byte("o")); n != size || stdout.Len() != size {
		t.Errorf("%d of %d bytes of the output came", n, size)
	}
	if n := bytes.Count(stderr.Bytes(), []byte("e")); n != size || stderr.Len() != size {
		t.Errorf("%d of %d bytes of the errors came", n, size)
	}
	c = s.start(t, s.spec(sandbox.RoleCheck, "flood", strconv.Itoa(size)), sandbox.Streams{Stdout: &failing{left: 100_000}})
	if _, err := c.Wait(testContext(t)); !errors.Is(err, errWriter) {
		t.Errorf("with a failing writer Wait said %v", err)
	}
}
