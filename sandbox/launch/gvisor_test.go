//go:build gvisor

package launch_test

import (
	"fmt"
	"net/http"
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
