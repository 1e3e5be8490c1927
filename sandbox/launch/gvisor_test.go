//go:build gvisor

package launch_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestGVisorDoors: the bridge leads through gVisor's own network stack to the
// doors, and nothing else does.
func TestGVisorDoors(t *testing.T) {
	d := newDesk(t)
	srv := here(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "from outside") })
	listed := srv.Listener.Addr().String()
	d.policy(strings.Replace(goodPolicy, "agent:\n", "agent:\n  runtime: runsc\n", 1) + fmt.Sprintf("egress: {door: open, allow: [%q]}\nallow: [runtime-floor, no-limits]\n", listed))
	r := d.start("/opt/test/agent", "doors", "proxy-GET=http://"+listed, "proxy-GET=http://127.0.0.1:1", "direct=http://"+listed)
	r.ends(0)
	out := r.out.String()
	for _, want := range []string{`200 OK "from outside"`, "127.0.0.1:1 is not allowed", "connection refused", "runsc"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
}

// TestContainerdGVisor is the session and its faults on engine containerd with
// agents and checks on runsc.
func TestContainerdGVisor(t *testing.T) {
	d, _ := newContainerdDesk(t)
	whole, err := os.ReadFile(d.path("home/policy.yaml"))
	d.must(err)
	text := strings.Replace(string(whole), "agent:\n", "agent:\n  runtime: runsc\n", 1)
	d.policy(strings.Replace(text, "{memory: 96MiB, pids: 64}", "{memory: 512MiB, pids: 256}", 1))
	d.containerdSessions(t)
	d.in(t, "boundary", func(d *desk) {
		r := d.start("/opt/test/agent", "wait")
		r.await("agent| ready")
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", initOf(r.session(), "agent")))
		if err != nil || !strings.HasPrefix(string(args), "runsc-") {
			d.Errorf("the agent is %q, %v", args, err)
		}
		d.must(r.cmd.Process.Signal(os.Interrupt))
		r.ends(0)
	})
}
