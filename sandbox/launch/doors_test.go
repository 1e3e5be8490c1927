package launch_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// here is a server on the host's loopback interface.
func here(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// on runs a test on both engines.
func on(t *testing.T, test func(d *desk, policy string)) {
	t.Run("local", func(t *testing.T) { test(newDesk(t), goodPolicy) })
	t.Run("docker", func(t *testing.T) {
		d, _ := newDockerDesk(t)
		test(d, dockerPolicy)
	})
}

// TestProxyDoor: the agent reaches what is listed through the door, is told why
// it does not reach the rest, and has no other way.
func TestProxyDoor(t *testing.T) {
	on(t, func(d *desk, policy string) {
		srv := here(d.T, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "from outside") })
		other := here(d.T, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "never") })
		listed, unlisted := srv.Listener.Addr().String(), other.Listener.Addr().String()
		d.policy(policy + fmt.Sprintf("egress: {door: open, allow: [%q]}\n", listed))
		r := d.start("/opt/test/agent", "doors", "proxy-GET=http://"+listed, "proxy-GET=http://"+unlisted, "direct=http://"+listed, "direct=http://127.0.0.1:3128")
		r.ends(0)
		out := r.out.String()
		for _, want := range []string{
			`proxy-GET=http://` + listed + `: 200 OK "from outside"`,
			`proxy-GET=http://` + unlisted + `: 403 proctor: ` + unlisted + `: not allowed. The operator can run:  proctor allow-host ` + unlisted,
			"proctor: refused: proxy: " + unlisted + ": not allowed\n",
			"proctor: hint: proctor allow-host " + unlisted + "\n",
			"connection refused",
			"direct=http://127.0.0.1:3128: connected",
			"allowed 1, refused 1",
			"   serve has network host", // and nobody else
		} {
			if !strings.Contains(out, want) {
				d.Errorf("%q is not in:\n%s", want, out)
			}
		}
	})
}
