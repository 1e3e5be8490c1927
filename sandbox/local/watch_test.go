package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
)

// itself says whether a test's launcher has a watcher.
type itself string

const (
	unwatched itself = ""
	watched   itself = "/proc/self/exe"
)

// launch runs the role "launcher" on a spec.
func (h *harness) launch(spec sandbox.Spec, start string, self itself) (*exec.Cmd, *output) {
	h.Helper()
	body, err := json.Marshal(spec)
	if err != nil {
		h.Fatal(err)
	}
	out := newOutput()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=launcher", "PROCTOR_TEST_SPEC="+string(body), "PROCTOR_TEST_START="+start,
		"PROCTOR_TEST_HOME="+h.engine.cfg.Home, "PROCTOR_TEST_STATE="+h.engine.cfg.State, "PROCTOR_TEST_RUNC="+h.engine.cfg.Runc,
		"PROCTOR_TEST_SELF="+string(self))
	r, w, err := os.Pipe()
	if err != nil {
		h.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	_ = w.Close()
	go func() { _, _ = io.Copy(out, r); _ = r.Close() }()
	return cmd, out
}

func killed(cmd *exec.Cmd) { _ = cmd.Process.Kill(); _ = cmd.Wait() }

// waiting is the process of the runtime in whose place the payload will be, 0
// where there is none.
func (h *harness) waiting(spec sandbox.Spec) int {
	pid, err := readPid(filepath.Join(h.engine.sessionDir(spec.Session), spec.Name, "pid"))
	if err != nil {
		return 0
	}
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if !strings.HasPrefix(string(comm), "runc:[") {
		return 0
	}
	return pid
}

// gone waits until the session's directory and cgroups are, which go last.
func (h *harness) gone(spec sandbox.Spec, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); _, _ = unix.Poll(nil, 10) {
		_, err := os.Lstat(h.engine.sessionDir(spec.Session))
		groups, groupErr := cgroup.Dirs("/proctor/" + spec.Session)
		if errors.Is(err, fs.ErrNotExist) && groupErr == nil && len(groups) == 0 {
			return true
		}
	}
	return false
}

// Invariant 10: a launcher that is killed between making a container and starting
// it leaves nothing, and nobody else has to come along for that.
func TestKilledBetweenMakingAndStarting(t *testing.T) {
	h := newHarness(t)
	t.Run("nobody watches", func(t *testing.T) { // the control: it does wait
		spec := h.spec("exit", "0")
		cmd, out := h.launch(spec, "", unwatched)
		out.await(t, "created")
		killed(cmd)
		if h.gone(spec, time.Second) || h.waiting(spec) == 0 {
			t.Error("a container that nobody removes is gone")
		}
		if _, err := h.engine.Sweep(t.Context(), spec.Session); err != nil {
			t.Error(err)
		}
		h.nothingLeft(spec)
	})
	t.Run("made", func(t *testing.T) {
		spec := h.spec("exit", "0")
		cmd, out := h.launch(spec, "", watched)
		out.await(t, "created")
		if h.waiting(spec) == 0 {
			t.Fatal("the container does not wait to be started")
		}
		killed(cmd)
		h.gone(spec, watcherGrace/2)
		h.nothingLeft(spec)
	})
	t.Run("any moment", func(t *testing.T) {
		for i := range 12 {
			spec := h.spec("exit", "0")
			cmd, _ := h.launch(spec, "", watched)
			_, _ = unix.Poll(nil, 15*i)
			killed(cmd)
			h.gone(spec, watcherGrace/2)
			h.nothingLeft(spec)
		}
	})
	t.Run("started", func(t *testing.T) { // it ends by its lifeline, and in its own time
		spec := h.spec("wait", "--", "exit", "0")
		cmd, out := h.launch(spec, "yes", watched)
		out.await(t, "waiting")
		killed(cmd)
		out.await(t, "wait: ok")
		h.gone(spec, watcherGrace/2)
		h.nothingLeft(spec)
	})
	t.Run("started, deaf", func(t *testing.T) {
		spec := h.spec("ignore", "--", "wait", "--", "wait-for-ever")
		cmd, out := h.launch(spec, "yes", watched)
		out.await(t, "waiting")
		killed(cmd)
		out.await(t, "wait: ok")
		if h.gone(spec, watcherGrace/2) {
			t.Error("it was not left its time")
		}
		h.gone(spec, 2*watcherGrace)
		h.nothingLeft(spec)
	})
}

// A watcher touches nothing but its own launcher's.
func TestWatcherLeavesOthersAlone(t *testing.T) {
	h := newHarness(t)
	in, _ := held(t)
	spec := h.spec("wait")
	c := h.start(spec, sandbox.Streams{Stdin: in})
	made := h.spec("exit", "0")
	made.Session = spec.Session // of the same session: by an audit, say
	made.Name = "proctor-" + spec.Session + "-agent-2"
	m := h.create(made, sandbox.Streams{})
	told := []string{spec.Session + "/" + spec.Name, made.Session + "/" + made.Name}
	other := orphans{engine: h.engine, token: newToken(), told: told}
	if err := other.remove(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*container{c, m} {
		select {
		case <-c.done:
			t.Errorf("%s was ended", c.Name())
		default:
		}
	}
	own := orphans{engine: h.engine, token: h.engine.watcher.token, told: told}
	if err := own.remove(t.Context(), 0); err != nil { // the control
		t.Fatal(err)
	}
	<-c.done
	<-m.done
}

// An engine that is closed has no watcher, and makes no container.
func TestCloseEndsTheWatcher(t *testing.T) {
	h := newHarness(t)
	h.engine.cfg.Self = string(watched)
	c, err := h.engine.Create(t.Context(), h.spec("exit", "0"), sandbox.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := h.engine.watcher.cmd.Process.Pid
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || !strings.HasPrefix(string(line), nameWatch+"\x00") {
		t.Fatalf("process %d is %q, %v", pid, line, err)
	}
	if err := errors.Join(h.engine.Close(), h.engine.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
		t.Error("the watcher is still there")
	}
	if _, err := h.engine.Create(t.Context(), h.spec("exit", "0"), sandbox.Streams{}); err == nil {
		t.Error("a closed engine made a container")
	}
}

// A watcher does without the runtime: whoever killed the launcher may have
// removed its programs, too.
func TestWatcherWithoutTheRuntime(t *testing.T) {
	h := newHarness(t)
	in, _ := held(t)
	spec := h.spec("wait")
	c := h.start(spec, sandbox.Streams{Stdin: in})
	alone, err := New(Config{Home: h.engine.cfg.Home, State: h.engine.cfg.State, Runc: filepath.Join(h.dir, "gone")})
	if err != nil {
		t.Fatal(err)
	}
	o := orphans{engine: alone, token: h.engine.watcher.token, told: []string{spec.Session + "/" + spec.Name}}
	if err := o.remove(t.Context(), 0); err == nil {
		t.Error("the runtime's absence is not told")
	}
	<-c.done
	h.nothingLeft(spec)
}
