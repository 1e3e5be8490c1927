package launch_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// whole demands that control verifies, that the next session works and cleans
// up, and that nothing is left.
func (d *desk) whole() {
	d.Helper()
	if out, err := d.proctor("keys", "list", "--engine", d.engine).CombinedOutput(); err != nil {
		d.Errorf("control does not verify: %v: %s", err, out)
	}
	if v := d.run(0, "true"); v.Verdict != "PASS" {
		d.Errorf("the next session: %s %q", v.Verdict, v.Reasons)
	}
	if left := d.left(); len(left) > 0 {
		d.Errorf("left behind after the next session: %q", left)
	}
}

// TestKilledLauncher (invariant 10): SIGKILL in each phase leaves no PASS, an
// agent that ends by itself, and a control that verifies; the next session
// cleans up and works.
func TestKilledLauncher(t *testing.T) {
	phases := []struct{ phase, line string }{
		{"stage", "stage: started"},
		{"open", "open: started"},
		{"serve", "serve: started"},
		{"agent", "agent| ready"},
		{"quiesce", "quiesce: started"},
		{"check", "check: started"},
		{"audit", "audit: started"},
		{"seal", "seal: started"},
	}
	d := newDesk(t)
	if v := d.run(0, "/opt/test/agent", "daemon", "x"); v.Verdict != "PASS" { // positive control
		t.Fatalf("without a fault: %s %q", v.Verdict, v.Reasons)
	}
	for _, p := range phases {
		t.Run(p.phase, func(t *testing.T) {
			d := *d
			d.T = t
			// A launcher that was faster than the signal proves nothing.
			for try := 0; !d.killIn(p.phase, p.line); try++ {
				if try == 4 {
					t.Fatal("the launcher was always faster")
				}
			}
			d.whole()
		})
	}
}

// killIn kills a launcher at a line of its progress, and reports whether that
// was before it had ended.
func (d *desk) killIn(phase, line string) bool {
	d.Helper()
	before := d.seals()
	argv := []string{"/opt/test/agent", "daemon", "y"}
	if phase == "agent" {
		argv = []string{"/opt/test/agent", "wait"}
	}
	r := d.start(argv...)
	reached := r.await(line)
	if phase == "agent" && reached {
		d.onlyServeAndAgent(r.session())
	}
	_ = r.cmd.Process.Kill()
	if r.wait() != -1 {
		return false
	}
	d.until(soon, "the agent ends by itself", func() bool { return len(d.withText("/opt/test/agent")) == 0 })
	d.nothingLeft()
	if after := d.seals(); !slices.Equal(before, after) {
		d.Errorf("a seal: %q, before %q", after, before)
	}
	id := ""
	for _, s := range d.listed() {
		if strings.HasPrefix(s.State, "dead in ") {
			id = s.ID
		}
		if id == s.ID && s.Verdict != "" {
			d.Errorf("a dead session is listed as %+v", s)
		}
	}
	if id != "" {
		d.neverPasses(id, phase)
	}
	return true
}

// nothingLeft waits for what has to happen without anybody's help: no process,
// no mount, no cgroup and no bundle of any session of this desk is there.
//
// containerd keeps what has ended, with its cgroup, until the next session has
// it removed: whole looks then.
func (d *desk) nothingLeft() {
	d.Helper()
	if d.engine == "containerd" {
		return
	}
	d.until(soon, "nothing of the killed launcher is left", func() bool { return len(d.left()) == 0 })
}

// waits reports whether a container was made and not started: it has the runtime
// waiting in its program's place.
func waits(session, name string) bool {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", initOf(session, name)))
	return err == nil && strings.HasPrefix(string(comm), "runc:[")
}

// TestKilledBeforeAStart (invariant 10): SIGKILL between the making of each
// container that is made ahead and its start leaves nothing, though nobody comes
// along to clean up.
func TestKilledBeforeAStart(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{"open", "serve", "agent", "read-stage"} {
		t.Run(name, func(t *testing.T) {
			d := *d
			d.T = t
			for try := 0; !d.killBeforeStart(name); try++ {
				if try == 9 {
					t.Fatal("the launcher was always faster")
				}
			}
			d.nothingLeft()
			d.whole()
		})
	}
}

// killBeforeStart stops a launcher as soon as the container is there, and kills
// it if the container then still waits.
func (d *desk) killBeforeStart(name string) bool {
	d.Helper()
	r := d.start("true")
	id := r.session()
	found := false
	d.until(patience, "container "+name, func() bool {
		select {
		case <-r.ended:
			return true
		default:
			found = waits(id, name)
			return found
		}
	})
	if !found || r.cmd.Process.Signal(syscall.SIGSTOP) != nil {
		return false
	}
	d.until(patience, "the launcher stands still", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
		return err != nil || strings.Contains(string(stat), ") T ")
	})
	found = waits(id, name)
	_ = r.cmd.Process.Kill()
	return r.wait() == -1 && found
}

// neverPasses audits a session whose launcher died: only one that lacks nothing
// but its audit may come to a verdict.
func (d *desk) neverPasses(id, phase string) {
	d.Helper()
	out, err := d.proctor("audit", id).CombinedOutput()
	complete := phase == "audit" || phase == "seal"
	switch {
	case err == nil && !complete:
		d.Errorf("the session of a launcher that died in %s: %s", phase, out)
	case err != nil && complete && !strings.Contains(string(out), "how the reader ended"):
		d.Logf("audit after a death in %s: %v: %s", phase, err, out)
	}
}

// onlyServeAndAgent (invariant 2): while the agent is alive, no container that
// has the root key is.
func (d *desk) onlyServeAndAgent(id string) {
	d.Helper()
	if d.engine != "local" {
		return
	}
	have := containers(id)
	slices.Sort(have)
	if !slices.Equal(have, []string{"agent", "serve"}) {
		d.Errorf("beside the agent: %q", have)
	}
}

// TestKilledContainer: each container of a session, killed from outside.
func TestKilledContainer(t *testing.T) {
	cases := []struct {
		container string
		exit      int
		reason    string
		agent     string
	}{
		{"open", 3, "", "true"},
		{"serve", 3, "the supervisor ended while the agent ran", "wait"},
		{"agent", 0, "", "wait"},
		{"check-0", 1, "check unit failed: signalled", "true"},
		{"read-before", 3, "the product could not be read before the checks", "true"},
		{"read-stage", 3, "the reader did not ", "true"},
		{"seal", 3, "", "true"},
	}
	d := newDesk(t)
	for _, c := range cases {
		t.Run(c.container, func(t *testing.T) {
			d := *d
			d.T = t
			if c.container == "check-0" {
				d.policy(strings.Replace(goodPolicy, "argv: [sh, test.sh]", `argv: [sh, -c, "echo ready; mkfifo /tmp/f; read x < /tmp/f"]`, 1))
			} else {
				d.policy(goodPolicy)
			}
			for try := 0; ; try++ {
				exit, out, done := d.killContainer(c.container, c.agent)
				if !done && try < 4 {
					continue
				}
				if !done {
					t.Fatal("the container was always faster")
				}
				if exit != c.exit || !strings.Contains(out, c.reason) || strings.Contains(out, "PASS") != (c.exit == 0) {
					t.Errorf("ended with %d, want %d with %q:\n%s", exit, c.exit, c.reason, out)
				}
				break
			}
			d.policy(goodPolicy)
			d.whole()
		})
	}
}

func (d *desk) killContainer(name, agent string) (exit int, out string, killed bool) {
	d.Helper()
	argv := []string{"true"}
	if agent == "wait" {
		argv = []string{"/opt/test/agent", "wait"}
	}
	before := len(d.seals())
	r := d.start(argv...)
	id := r.session()
	if agent == "wait" {
		r.await("agent| ready")
	}
	if name == "check-0" { // one that is only made is not killed by this
		r.await("check| ready")
	}
	d.until(patience, "container "+name, func() bool {
		select {
		case <-r.ended:
			return true
		default:
		}
		pid := initOf(id, name)
		killed = pid != 0 && kill(pid)
		return killed
	})
	exit = r.wait()
	// Killed after it had done its work, it proves nothing.
	if exit == 0 && name != "agent" {
		killed = false
	}
	if name == "seal" && killed && len(d.seals()) != before {
		d.Errorf("a seal was kept: %q", d.seals())
	}
	return exit, r.out.String(), killed
}

// TestSecondUserOfTheStage (case B4): somebody else who has the stage mounted
// is named, and the verdict is INDETERMINATE.
func TestSecondUserOfTheStage(t *testing.T) {
	d := newDesk(t)
	r := d.start("sh", "-c", "echo ready; mkfifo /tmp/f; read x < /tmp/f")
	r.await("agent| ready")
	id := r.session()
	stage := d.path(fmt.Sprintf("home/host/stages/%s/tree", id))
	// A mount namespace of its own, with the stage at another place.
	other := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount --bind "$0" /mnt && echo there && read x`, stage)
	in, err := other.StdinPipe()
	d.must(err)
	out, err := other.StdoutPipe()
	d.must(err)
	d.must(other.Start())
	t.Cleanup(func() { _ = in.Close(); _ = other.Wait() })
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if !kill(initOf(id, "agent")) {
		t.Fatal("the agent is not there")
	}
	r.ends(3)
	want := fmt.Sprintf("process %d (sh)", other.Process.Pid)
	if text := r.out.String(); !strings.Contains(text, want) || !strings.Contains(text, "has it mounted at /mnt can still write the product") {
		t.Errorf("the other is not named (%s):\n%s", want, text)
	}
}
