package docs_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
)

// manager is a systemd of the test's own, with this repository at /opt/proctor.
type manager struct {
	*testing.T
	pid string // the manager's, on the host
}

// bootSystemd ends the manager, and everything that it started, with the test.
func bootSystemd(t *testing.T) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "proctor-systemd-")
	if err != nil {
		t.Fatal(err)
	}
	repo, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command("testdata/boot-systemd", dir, repo)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // unshare --kill-child takes the namespace's first process along
		<-ended
		// Groups are empty a moment after their last process has ended.
		left := []string{}
		if !await(20*time.Second, func() bool {
			for _, g := range groups(filepath.Base(dir)) {
				_ = os.Remove(g)
			}
			left = groups(filepath.Base(dir))
			return len(left) == 0
		}) {
			t.Errorf("left behind: %q", left)
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	m := &manager{T: t}
	gone := false
	running := await(2*time.Minute, func() bool {
		select {
		case <-ended:
			gone = true
			return true
		default:
		}
		children, _ := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/task/" + strconv.Itoa(cmd.Process.Pid) + "/children")
		m.pid = strings.TrimSpace(string(children))
		return m.pid != "" && m.inside("systemctl is-system-running --wait").Run() == nil
	})
	if gone {
		t.Fatalf("systemd did not start: %s", &said)
	}
	if !running {
		failed, _ := m.inside("systemctl --failed --no-pager").CombinedOutput()
		t.Fatalf("systemd is not running: %s\n%s", &said, failed)
	}
	return m
}

// await says whether it became true in time.
func await(limit time.Duration, so func() bool) bool {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(limit); !so(); <-tick.C {
		if time.Now().After(until) {
			return false
		}
	}
	return true
}

// groups are the control groups of the name, and what is below them, deepest first.
func groups(name string) []string {
	var all []string
	for _, top := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		found, _ := filepath.Glob(top)
		for _, f := range found {
			_ = filepath.WalkDir(f, func(path string, e os.DirEntry, err error) error {
				if err == nil && e.IsDir() {
					all = append([]string{path}, all...)
				}
				return nil
			})
		}
	}
	return all
}

// inside is a script where the manager is, in its repository.
func (m *manager) inside(script string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(m.Context(), 5*time.Minute)
	m.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "nsenter", "--target", m.pid, "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--root", "--wd",
		"bash", "-euc", "cd /opt/proctor; "+script)
	return cmd
}

// do runs a script and returns what it prints; it must end with want.
func (m *manager) do(want int, script string) string {
	m.Helper()
	cmd := m.inside(script)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != want {
		journal, _ := m.inside("journalctl --boot --no-pager -o cat | tail -50").Output()
		m.Fatalf("%s\nended with %d, want %d: %v\n%s\n%s", script, code, want, err, out, journal)
	}
	return string(out)
}

// TestSystemdManager runs the page's commands under a real systemd: a session of
// the unit passes, fails, and is stopped, and each is sealed.
func TestSystemdManager(t *testing.T) {
	need.Root(t)
	if out, err := exec.Command("make", "-C", root, "all").CombinedOutput(); err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	page := read(t, "systemd.md")
	blocks := regexp.MustCompile("(?s)\n```(?:yaml|ini)?\n(.*?)\n```\n").FindAllStringSubmatch(page, -1)
	if len(blocks) != 6 {
		t.Fatalf("the page has %d blocks", len(blocks))
	}
	install, policy, keys, run, verbs, dropIn := blocks[0][1], blocks[1][1], blocks[2][1], blocks[3][1], blocks[4][1], blocks[5][1]
	m := bootSystemd(t)
	m.do(0, "mkdir /srv/site && echo one > /srv/site/a.txt && cat > policy.yaml <<'E'\n"+policy+"\nE\n")
	m.do(0, install)
	m.do(0, keys)

	// The product is root's: the account may read it, and that is enough.
	if out := m.do(0, run); !strings.Contains(out, "PASS (exit 0)") {
		t.Errorf("the journal has no PASS:\n%s", out)
	}
	seals := "/var/lib/proctor-sessions/host/seals/"
	sealed := func() []string { return strings.Fields(m.do(0, "cd "+seals+" && ls -t *.json")) }
	passed := sealed()
	if len(passed) != 1 {
		t.Fatalf("seals: %q", passed)
	}
	if out := m.do(0, strings.ReplaceAll(verbs, "SESSION.json", passed[0])); !strings.Contains(out, "genuine seal, verdict PASS") {
		t.Errorf("%s", out)
	}
	// Keys are a subordinate id's of the account's, and nobody's whom root gave ids to.
	if out := m.do(0, "stat -c %u /var/lib/proctor-sessions/keys/root"); !regexp.MustCompile(`^1000[012]\d\d\n$`).MatchString(out) {
		t.Errorf("the root key's directory belongs to %s", out)
	}
	// Who cannot write the product cannot apply.
	apply := "runuser -u proctor -- proctor --home /var/lib/proctor-sessions apply " + strings.TrimSuffix(passed[0], ".json")
	if out := m.do(2, apply); !strings.Contains(out, "/srv/site belongs to the user 0: its owner, or root, can apply") {
		t.Errorf("%s", out)
	}

	// A verdict that is not PASS is a start that failed, with the verdict's status.
	start := strings.Split(run, "\n")[0]
	m.do(0, "sed -i 's/echo fixed > fix.txt/echo fixed > other.txt/' /etc/proctor/policy.yaml")
	m.do(1, start)
	if out := m.do(0, "systemctl show -p ExecMainStatus --value proctor@srv-site; systemctl reset-failed"); strings.TrimSpace(out) != "1" {
		t.Errorf("FAIL ended with %s", out)
	}

	// A stop ends the agent; what there is is sealed.
	m.do(0, "sed -i 's/echo fixed > other.txt/echo ready; sleep 600/' /etc/proctor/policy.yaml")
	m.do(0, strings.Replace(start, "start", "start --no-block", 1)+
		"\nfor i in $(seq 300); do if journalctl -u proctor@srv-site -o cat | grep -q 'agent. ready'; then break; fi; sleep 0.2; done\nsystemctl stop proctor@srv-site")
	if after := sealed(); len(after) != 3 {
		t.Errorf("after a stop there are the seals %q\n%s", after, m.do(0, "journalctl -u proctor@srv-site -o cat"))
	}
	if out := m.do(0, "systemctl show -p MemoryMax -p TasksMax --value proctor@srv-site; ps -eo user:20,args"); !strings.Contains(out, "8589934592\n4096\n") || strings.Contains(out, "proctor-agent") {
		t.Errorf("limits, or what is left: %s", out)
	}

	// Root as the account, with a home of its own.
	m.do(0, "rm -rf /var/lib/proctor-sessions && mkdir -m 0700 /var/lib/proctor-sessions && mkdir -p /etc/systemd/system/proctor@.service.d && "+
		"cat > /etc/systemd/system/proctor@.service.d/root.conf <<'E'\n"+dropIn+"\nE\nsystemctl daemon-reload")
	m.do(0, "proctor init --home /var/lib/proctor-sessions && sed -i 's/echo ready; sleep 600/echo fixed > fix.txt/; /^allow:/d' /etc/proctor/policy.yaml")
	if out := m.do(0, run+" | grep '(exit ' | tail -1"); !strings.Contains(out, "PASS (exit 0): 2 entries, 1 check, 0 findings") || strings.Contains(out, "waived") {
		t.Errorf("as root: %s", out)
	}
}
