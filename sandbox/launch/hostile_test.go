package launch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asked is how many questions of another client are timed during an attack.
const asked = 10

// TestSupervisorUnderAttack (invariant 8, case B3): whatever the agent does, a
// second client of the same door has its answer within a second, and every
// answer has its row in the record; the session comes to its verdict.
func TestSupervisorUnderAttack(t *testing.T) {
	d := newDesk(t)
	for _, attack := range []string{"wait", "forks", "memory", "output", "disk", "sockets", "questions"} {
		t.Run(attack, func(t *testing.T) {
			d := *d
			d.T = t
			if attack == "disk" { // what is in /tmp is memory of the agent
				d.policy(strings.Replace(goodPolicy, "memory: 96MiB", "memory: 600MiB", 1))
				defer d.policy(goodPolicy)
			}
			r := d.start("/opt/test/agent", attack)
			r.await("agent| ready")
			id := r.session()
			answered, slowest := d.ask(d.path("home/control/sockets/" + id + "/supervisor.sock"))
			t.Logf("%d of %d questions answered, the slowest in %s", answered, asked, slowest)
			if answered < asked && attack != "questions" {
				t.Errorf("%d questions of %d were refused", asked-answered, asked)
			}
			if slowest > time.Second {
				t.Errorf("an answer took %s", slowest)
			}
			d.must(r.cmd.Process.Signal(syscall.SIGTERM))
			r.ends(0)
			if rows := d.rows(id, "session-asked"); rows < answered {
				t.Errorf("%d answers, and %d rows of them", answered, rows)
			}
		})
	}
	if v := d.run(0, "true"); v.Verdict != "PASS" {
		t.Errorf("the next session: %s", v.Verdict)
	}
	// Invariant 9: init, and an open and a seal for each session; nothing that an
	// agent asked for became an act.
	if n, want := d.acts(), 1+2*len(d.sessions()); n != want {
		t.Errorf("the ledger has %d acts, want %d", n, want)
	}
}

// acts is the number of acts in the ledger.
func (d *desk) acts() int {
	d.Helper()
	out, err := d.proctor("keys", "list", "--json").Output()
	d.must(err)
	var reply struct {
		Anchor struct {
			Count int `json:"count"`
		} `json:"anchor"`
	}
	d.must(json.Unmarshal(out, &reply))
	return reply.Anchor.Count
}

// ask asks who the session is, from the host, through the agent's own socket.
func (d *desk) ask(path string) (answered int, slowest time.Duration) {
	d.Helper()
	dir, err := os.Open(filepath.Dir(path)) // its path may be longer than a socket's can
	d.must(err)
	defer func() { _ = dir.Close() }()
	socket := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	for range asked {
		began := time.Now()
		status := 0
		for status == 0 && time.Since(began) < 10*time.Second { // a full queue refuses at once
			status = d.askOnce(socket)
		}
		slowest = max(slowest, time.Since(began))
		if status == http.StatusOK {
			answered++
		} else if status != http.StatusServiceUnavailable {
			d.Errorf("the supervisor answers %d", status)
		}
	}
	return answered, slowest
}

// askOnce is the status of the answer; 0 where there is none within two seconds.
func (d *desk) askOnce(socket string) int {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", socket)
		},
	}, Timeout: 2 * time.Second}
	resp, err := client.Get("http://supervisor/v1/session")
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	var s struct {
		Session string `json:"session"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil && resp.StatusCode == http.StatusOK {
		return 0
	}
	return resp.StatusCode
}

// rows counts a session's rows of a kind.
func (d *desk) rows(id, kind string) int {
	d.Helper()
	b, err := os.ReadFile(d.path("home/control/sessions/" + id + "/record"))
	d.must(err)
	return strings.Count(string(b), `"kind":"`+kind+`"`)
}

// TestDaemonIsGone (invariant 6, case B4): a process that the agent left
// behind, in a session of its own and deaf to signals, writes until the agent's
// container is gone, and not after: the checks and the audit see one tree.
func TestDaemonIsGone(t *testing.T) {
	d := newDesk(t)
	v := d.run(0, "/opt/test/agent", "daemon", "z")
	if v.Verdict != "PASS" {
		t.Errorf("%s %q", v.Verdict, v.Reasons)
	}
	if left := d.withText("/opt/test/agent"); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
	if _, err := os.Stat(d.path("home/host/stages/" + v.Session + "/tree/written-z")); err != nil {
		t.Errorf("the daemon never wrote: %v", err)
	}
}
