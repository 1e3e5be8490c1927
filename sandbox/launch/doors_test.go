package launch_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
			`proxy-GET=http://` + unlisted + `: 403 proctor: ` + unlisted + ` is not allowed. The operator can run:  proctor allow-host ` + unlisted,
			"proctor: refused: proxy: " + unlisted + " is not allowed\n",
			" allow-host " + unlisted + "\n",
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

// TestD7CredentialsDoor (case D7): the agent reaches a service that wants a
// secret, and no place that the agent, the operator's console, the record, the seal or the
// session's containers have shows the secret.
func TestD7CredentialsDoor(t *testing.T) {
	const canary = "sk-canary-4711-do-not-tell"
	on(t, func(d *desk, policy string) {
		srv := here(d.T, func(w http.ResponseWriter, r *http.Request) {
			ok := r.Header.Get("Authorization") == "Bearer "+canary
			w.Header().Set("X-Echo", r.Header.Get("Authorization"))
			_, _ = fmt.Fprintf(w, "authorised %v, %s", ok, r.Header.Get("Authorization"))
		})
		d.must(os.MkdirAll(d.path("home/secrets"), 0o700))
		d.must(os.WriteFile(d.path("home/secrets/model"), []byte(canary+"\n"), 0o600))
		d.policy(policy + fmt.Sprintf(`services:
  - {name: model, base: %q, auth: {kind: header, name: Authorization, prefix: "Bearer "}, secret: {keyring: model}, paths: [/v1/]}
`, srv.URL))
		r := d.start("/opt/test/agent", "doors", "GET=http://127.0.0.1:4100/model/v1/x", "GET=http://127.0.0.1:4100/model/admin", "grep=/proc/self/environ")
		r.ends(0)
		out := r.out.String()
		for _, want := range []string{`200 OK "authorised true, Bearer ****`, "403 proctor: model GET /admin: the path is not below one", "refused: services: model GET /admin", "allowed 1, refused 1"} {
			if !strings.Contains(out, want) {
				d.Errorf("%q is not in:\n%s", want, out)
			}
		}
		log, err := d.proctor("log", d.sessions()[0].ID).Output()
		d.must(err)
		if !strings.Contains(string(log), "services-request") {
			d.Errorf("the record:\n%s", log)
		}
		if strings.Contains(out+string(log), canary) {
			d.Errorf("the secret is shown:\n%s\n%s", out, log)
		}
		d.must(filepath.WalkDir(d.path("home"), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || strings.HasSuffix(path, "secrets/model") {
				return err
			}
			b, err := os.ReadFile(path)
			if bytes.Contains(b, []byte(canary)) {
				d.Errorf("%s holds the secret", path)
			}
			return err
		}))
	})
}

// TestSecretsFile: a secret that others could read, or that lies in a product, is
// no secret; nothing is started.
func TestSecretsFile(t *testing.T) {
	d := newDesk(t)
	policy := func(path string) {
		d.policy(goodPolicy + fmt.Sprintf("services: [{name: model, preset: openai, secret: {file: %q}}]\n", path))
	}
	good := d.path("home/good")
	d.must(os.WriteFile(good, []byte("0123456789"), 0o600))
	policy(good)
	d.start("/opt/test/agent", "pass").ends(0)
	for name, spoil := range map[string]func(string) string{
		"readable by others": func(p string) string { d.must(os.Chmod(p, 0o644)); return p },
		"a link":             func(p string) string { d.must(os.Symlink(good, p+"l")); return p + "l" },
		"too short":          func(p string) string { d.must(os.WriteFile(p, []byte("short\n"), 0o600)); return p },
		"two lines":          func(p string) string { d.must(os.WriteFile(p, []byte("0123456789\nabc\n"), 0o600)); return p },
		"missing":            func(p string) string { return p + "x" },
		"in the product": func(string) string {
			d.write("site/key", "0123456789")
			d.must(os.Chmod(d.path("site/key"), 0o600))
			return d.path("site/key")
		},
	} {
		p := d.path("home/bad-" + strings.ReplaceAll(name, " ", "-"))
		d.must(os.WriteFile(p, []byte("0123456789"), 0o600))
		policy(spoil(p))
		r := d.start("/opt/test/agent", "pass")
		r.ends(2)
		if out := r.out.String(); !strings.Contains(out, "nothing was started") || strings.Contains(out, "0123456789") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// TestAllowHostWhileItRuns: the operator's verbs count in a running session, also
// when the keys were rotated meanwhile, and a denial before everything.
func TestAllowHostWhileItRuns(t *testing.T) {
	d := newDesk(t)
	srv := here(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "from outside") })
	address := srv.Listener.Addr().String()
	d.policy(goodPolicy + "egress: {door: open}\n")
	r := d.start("/opt/test/agent", "doors", "until=http://"+address)
	r.await(" allow-host " + address)
	numbers, err := d.proctor("sessions", "metrics", r.session()).Output()
	if err != nil || strings.Contains(string(numbers), `{door="proxy",outcome="refused"} 0`) || !strings.Contains(string(numbers), `proctor_door_requests_total{door="proxy",outcome="refused"} `) {
		t.Errorf("metrics: %v: %s", err, numbers)
	}
	if out, err := d.proctor("keys", "rotate").CombinedOutput(); err != nil {
		t.Fatalf("rotate: %v: %s", err, out)
	}
	if out, err := d.proctor("allow-host", address, "--expires", "1h").CombinedOutput(); err != nil || !strings.Contains(string(out), "allowed "+address+" until ") {
		t.Fatalf("%v: %s", err, out)
	}
	r.ends(0)
	if out := r.out.String(); !strings.Contains(out, `200 OK "from outside"`) {
		t.Errorf("%s", out)
	}
	if out, err := d.proctor("deny-host", address).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r = d.start("/opt/test/agent", "doors", "proxy-GET=http://"+address)
	r.ends(0)
	if out := r.out.String(); !strings.Contains(out, "403 proctor: "+address+" is denied by the operator") {
		t.Errorf("%s", out)
	}
}
