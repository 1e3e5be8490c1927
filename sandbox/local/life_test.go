package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

func (h *harness) start(spec sandbox.Spec, s sandbox.Streams) *container {
	h.Helper()
	c := h.create(spec, s)
	if err := c.Start(h.Context()); err != nil {
		h.Fatal(err)
	}
	return c
}

// held is a standard input that stays open until the test closes hold.
func held(t *testing.T) (in, hold *os.File) {
	t.Helper()
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = hold.Close() })
	return in, hold
}

func TestStop(t *testing.T) {
	h := newHarness(t)
	t.Run("in time", func(t *testing.T) {
		out := newOutput()
		c := h.start(h.spec("term", "5"), sandbox.Streams{Stdout: out, Stderr: out})
		out.await(t, "waiting")
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exit := h.wait(c); exit.Code != 5 || exit.Signal != 0 {
			t.Errorf("exit is %+v, want 5", exit)
		}
	})
	t.Run("too late", func(t *testing.T) {
		in, _ := held(t)
		out := newOutput()
		c := h.start(h.spec("ignore", "--", "wait"), sandbox.Streams{Stdin: in, Stdout: out, Stderr: out})
		out.await(t, "waiting")
		before := time.Now()
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exit := h.wait(c); exit.Code != 137 || exit.Signal != 9 || exit.OOM {
			t.Errorf("exit is %+v, want 137", exit)
		}
		if took := time.Since(before); took < c.bundle.spec.Grace {
			t.Errorf("was killed after %s, before its grace was over", took)
		}
	})
	t.Run("ended before", func(t *testing.T) {
		c := h.start(h.spec("exit", "0"), sandbox.Streams{})
		h.wait(c)
		if err := errors.Join(c.Stop(t.Context()), c.Kill(t.Context()), c.Remove(t.Context()), c.Remove(t.Context()), c.Kill(t.Context())); err != nil {
			t.Error(err)
		}
		if exit := h.wait(c); exit.Code != 0 {
			t.Errorf("Wait after Remove says %+v", exit)
		}
	})
	t.Run("never started", func(t *testing.T) {
		spec := h.spec("exit", "0")
		c := h.create(spec, sandbox.Streams{})
		if err := c.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.nothingLeft(spec)
		if err := c.Start(t.Context()); err == nil {
			t.Error("a removed container was started")
		}
	})
}

func TestWaitHonoursItsContext(t *testing.T) {
	h := newHarness(t)
	in, hold := held(t)
	c := h.start(h.spec("wait"), sandbox.Streams{Stdin: in})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait = %v, want the deadline", err)
	}
	_ = in.Close()
	_ = hold.Close() // the lifeline
	if exit := h.wait(c); exit.Code != 0 {
		t.Errorf("exit is %+v", exit)
	}
}

func TestCancelledCreateLeavesNothing(t *testing.T) {
	h := newHarness(t)
	made := 0
	for i := range 12 {
		spec := h.spec("exit", "0")
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(15*i)*time.Millisecond)
		c, err := h.engine.Create(ctx, spec, sandbox.Streams{})
		cancel()
		if err == nil {
			made++
			err = c.Remove(t.Context())
			if err != nil {
				t.Error(err)
			}
		}
		h.nothingLeft(spec)
	}
	if made == 12 {
		t.Error("none was cancelled")
	}
}

func TestLimits(t *testing.T) {
	h := newHarness(t)
	t.Run("memory", func(t *testing.T) {
		exit, _ := h.run(h.spec("alloc", "256"))
		if !exit.OOM || exit.Signal != 9 {
			t.Errorf("256 MiB of 128: exit is %+v, want an OOM", exit)
		}
		if exit, out := h.run(h.spec("alloc", "64")); exit.OOM || exit.Code != 0 {
			t.Errorf("64 MiB of 128: exit is %+v\n%s", exit, out)
		}
	})
	t.Run("processes", func(t *testing.T) {
		_, out := h.run(h.spec("fork", "100"))
		want(t, out, "started fewer than 100: true")
		_, out = h.run(h.spec("fork", "3"))
		want(t, out, "started fewer than 3: false")
	})
	t.Run("tmpfs", func(t *testing.T) {
		_, out := h.run(h.spec("write", "/tmp/a", "x", "--", "alloc-file", "/tmp/c", "4", "--", "alloc-file", "/tmp/b", "20"))
		want(t, out, "alloc-file /tmp/b 20: ENOSPC", "alloc-file /tmp/c 4: ok")
	})
}

// When the first process is gone, so is everything else, whatever it did to
// live on; judged by a file on the host that it kept writing.
func TestDaemonsEndWithTheContainer(t *testing.T) {
	h := newHarness(t)
	stage := h.owned("stage")
	in, hold := held(t)
	spec := h.spec("daemon", "/p/x", "--", "await", "/p/x", "--", "wait")
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: stage, Target: "/p", Writable: true})
	out := newOutput()
	c := h.start(spec, sandbox.Streams{Stdin: in, Stdout: out, Stderr: out})
	out.await(t, "waiting")
	size := func() int64 {
		st, err := os.Stat(filepath.Join(stage, "x"))
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	if size() == 0 { // the control: it does write
		t.Fatal("the daemon does not write")
	}
	users, err := h.engine.Users(t.Context(), stage)
	if err != nil || len(users) != 1 || !strings.Contains(users[0], spec.Name) || !strings.Contains(users[0], "/p") {
		t.Errorf("users while it runs are %q, %v", users, err)
	}
	_ = in.Close()
	_ = hold.Close()
	h.wait(c)
	after := size()
	if err := c.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := size(); now != after {
		t.Errorf("the file grew from %d to %d after the container's end", after, now)
	}
	if users, err := h.engine.Users(t.Context(), stage); err != nil || len(users) != 0 {
		t.Errorf("users after Remove are %q, %v", users, err)
	}
	h.nothingLeft(spec)
}

func TestUsersSeesPartsAndParents(t *testing.T) {
	h := newHarness(t)
	parent := h.owned("stages")
	stage := h.owned("stages/stage")
	sub := filepath.Join(stage, "sub")
	other := h.owned("stages/stage-other")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(h.dir, "link")
	if err := os.Symlink(stage, link); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]string{"itself": stage, "a part": sub, "a parent": parent, "another": other} {
		spec := h.spec("exit", "0")
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: source, Target: "/p"})
		c := h.create(spec, sandbox.Streams{})
		users, err := h.engine.Users(t.Context(), link)
		if err != nil {
			t.Fatal(err)
		}
		if found := len(users) == 1 && strings.Contains(users[0], "mounted at /p"); found != (name != "another") || !found && len(users) > 0 {
			t.Errorf("with %s mounted, users are %q", name, users)
		}
		if err := c.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// A service with a mount namespace of its own, but the host's mounts.
	private := func(script string) *exec.Cmd {
		cmd := exec.Command("unshare", "--mount", "sh", "-c", script+" && echo ready && read x")
		cmd.Stderr = os.Stderr
		stdin, _ := cmd.StdinPipe()
		stdout, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
		return cmd
	}
	private("true")
	if users, err := h.engine.Users(t.Context(), stage); err != nil || len(users) != 0 {
		t.Errorf("with a private copy of the host's mounts, users are %q, %v", users, err)
	}
	cmd := private(fmt.Sprintf("mount --bind %s /mnt", stage))
	users, err := h.engine.Users(t.Context(), stage)
	if err != nil || len(users) != 1 || !strings.Contains(users[0], fmt.Sprintf("process %d (sh)", cmd.Process.Pid)) {
		t.Errorf("with it mounted in a private namespace, users are %q, %v", users, err)
	}
}

// A launcher that is killed: its containers see the end of their input, and
// whatever is left of them, in any phase, the next one sweeps.
func TestKilledLauncher(t *testing.T) {
	h := newHarness(t)
	sweep := func(spec sandbox.Spec, names int) {
		t.Helper()
		got, err := h.engine.Sweep(t.Context(), spec.Session)
		if err != nil || len(got) != names {
			t.Errorf("Sweep = %q, %v, want %d", got, err, names)
		}
		h.nothingLeft(spec)
		if got, err := h.engine.Sweep(t.Context(), spec.Session); err != nil || len(got) != 0 {
			t.Errorf("second Sweep = %q, %v", got, err)
		}
	}
	t.Run("created", func(t *testing.T) {
		spec := h.spec("exit", "0")
		cmd, out := h.launch(spec, "", unwatched)
		out.await(t, "created")
		killed(cmd)
		sweep(spec, 1)
	})
	t.Run("running, deaf", func(t *testing.T) {
		spec := h.spec("daemon", "/tmp/x", "--", "ignore", "--", "wait", "--", "wait-for-ever")
		cmd, out := h.launch(spec, "yes", unwatched)
		out.await(t, "waiting")
		killed(cmd)
		out.await(t, "wait: ok") // the lifeline
		sweep(spec, 1)
	})
	t.Run("while it makes the container", func(t *testing.T) {
		for i := range 12 {
			spec := h.spec("exit", "0")
			cmd, _ := h.launch(spec, "yes", unwatched)
			// Not a wait for something to have happened: every moment is as good.
			_, _ = unix.Poll(nil, 10*i)
			killed(cmd)
			if _, err := h.engine.Sweep(t.Context(), spec.Session); err != nil {
				t.Error(err)
			}
			h.nothingLeft(spec)
		}
	})
	t.Run("another session is left alone", func(t *testing.T) {
		in, _ := held(t)
		c := h.start(h.spec("wait"), sandbox.Streams{Stdin: in})
		if _, err := h.engine.Sweep(t.Context(), sessionName()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-c.done:
			t.Error("it ended")
		default:
		}
		if _, err := h.engine.Sweep(t.Context(), "../x"); err == nil {
			t.Error("a sweep of no session id")
		}
	})
}

func TestTwoSessionsCannotReachEachOther(t *testing.T) {
	h := newHarness(t)
	in, _ := held(t)
	out := newOutput()
	first := h.spec("write", "/tmp/secret", "x", "--", "wait")
	mine := h.owned("mine")
	if err := os.WriteFile(filepath.Join(mine, "file"), []byte("first's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(mine, "file"), testAgent, testAgent); err != nil {
		t.Fatal(err)
	}
	c := h.start(first, sandbox.Streams{Stdin: in, Stdout: out})
	out.await(t, "waiting")
	second := h.spec("ls", "/proc", "--", "cat", "/p/file", "--", "signal", "9", "2", "--", "ls", h.engine.cfg.State)
	second.Identity = sandbox.Identity{Inside: insideAgentID, Host: testAgent + 32, HostRoot: testAgentRoot + 32}
	second.Mounts = append(second.Mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: mine, Target: "/p"})
	_, said := h.run(second)
	want(t, said, "cat /p/file: EACCES", "signal 9 2: ESRCH", "ls "+h.engine.cfg.State+": ENOENT")
	pids := 0
	for _, line := range strings.Split(said, "\n") {
		if e, ok := strings.CutPrefix(line, "entry "); ok && strings.Trim(e, "0123456789") == "" {
			pids++
		}
	}
	if pids != 1 {
		t.Errorf("the second sees %d processes", pids)
	}
	// On the host, the second's ids cannot pass the first's directory.
	var st unix.Stat_t
	if err := unix.Stat(c.bundle.dir, &st); err != nil || st.Mode&0o007 != 0 || st.Gid != testAgentRoot || st.Uid != 0 {
		t.Errorf("the first's directory is %d:%d %o, %v", st.Uid, st.Gid, st.Mode, err)
	}
	select {
	case <-c.done:
		t.Error("the first has ended")
	default:
	}
}
