package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox/docker/dockertest"
)

// shell runs a line that the documentation or a verdict shows, with the stack's
// own compose for `docker compose`.
func (s *stack) shell(line string) (string, error) {
	s.Helper()
	cmd := exec.Command("sh", "-ec", strings.ReplaceAll(line, "docker compose", strings.Join(s.command(), " ")))
	cmd.Dir = s.dir
	cmd.Env = s.env()
	out, err := cmd.Output()
	return string(out), err
}

func (s *stack) must(line string) string {
	s.Helper()
	out, err := s.shell(line)
	if err != nil {
		s.Fatalf("%s: %v: %s", line, err, out)
	}
	return out
}

// TestComposeOperator: what a verdict prints as remedies are commands that work,
// an approval is of exactly what was shown, a product's own policy counts once it
// is approved, and apply brings the sealed bytes home, if nothing they rely on was
// taken back.
func TestComposeOperator(t *testing.T) {
	s := newStack(t)
	site := filepath.Join(s.dir, "site")
	own := site + "/proctor.yaml"
	if err := os.WriteFile(own, []byte("version: 1\nprotected: [\"b.txt\"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.policy(`echo agent > a.txt; echo 'export MODE=dev' > .envrc`, []string{goodCheck}, inside)
	text := s.seal(exitFail)
	remedy := regexp.MustCompile(`(?m)^    approve: (.+)$`).FindStringSubmatch(text)
	review := regexp.MustCompile(`(?m)^    review:  (.+)$`).FindStringSubmatch(text)
	if remedy == nil || review == nil {
		t.Fatalf("no remedy: %s", text)
	}
	if out := s.must(review[1]); out != "export MODE=dev\n" {
		t.Errorf("review: %q", out)
	}
	if out, err := s.shell(strings.Replace(remedy[1], "trust approve "+site+"/.envrc", "trust approve "+site+"/a.txt", 1) + "0"); err == nil {
		t.Errorf("another digest than was shown: %s", out)
	}
	if out, err := s.shell("docker compose run --rm -T apply"); err == nil {
		t.Errorf("a session that failed was applied: %s", out)
	}
	if out := s.must(remedy[1]); !strings.HasPrefix(out, "approved\tsha256:") || !strings.HasSuffix(out, site+"/.envrc\n") {
		t.Errorf("approve: %s", out)
	}
	s.must(fmt.Sprintf("docker compose run --rm --no-deps -T trust approve %s --expect-sha256 $(sha256sum < %s | cut -c1-64) < %s", own, own, own))
	if p := s.sealed(s.seal(exitOK)); p.ProductPolicySHA256 == "" {
		t.Error("the product's own policy was approved, and narrows nothing")
	}
	if out := s.must("docker compose run --rm --no-deps -T trust list"); strings.Count(out, "approved\t") != 2 || !strings.Contains(out, "/.envrc") {
		t.Errorf("list: %s", out)
	}
	if out := s.must("docker compose run --rm -T apply"); !strings.Contains(out, ": 2 written, 0 removed") {
		t.Errorf("apply: %s", out)
	}
	for name, want := range map[string]string{"a.txt": "agent\n", ".envrc": "export MODE=dev\n"} {
		if data, err := os.ReadFile(filepath.Join(site, name)); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	s.must(fmt.Sprintf("docker compose run --rm --no-deps -T trust revoke %s/.envrc", site))
	if out, err := s.shell("docker compose run --rm -T apply"); err == nil {
		t.Errorf("applied without the approval that the seal relies on: %s", out)
	}
	s.rotated()
}

// rotated: after a rotation the seals before it verify by the chain that is exported
// then, and not by the one before, and so does a seal of the new key.
func (s *stack) rotated() {
	s.Helper()
	before, old := s.must("docker compose run --rm --no-deps -T public-key"), filepath.Join(s.dir, "seal.json")
	if out := s.must("docker compose run --rm --no-deps -T rotate"); strings.Count(out, "\n") != 2 || !strings.Contains(out, "1\tsuperseded\t") || !strings.Contains(out, "2\tactive\t") {
		s.Errorf("rotate: %s", out)
	}
	after := s.must("docker compose run --rm --no-deps -T public-key")
	for name, content := range map[string]string{"before.json": before, "after.json": after} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
			s.Fatal(err)
		}
	}
	s.output(exitOK, "verify", "--public-key", "after.json", old)
	s.sealed(s.seal(exitOK)) // with the chain of now
	s.output(exitFail, "verify", "--public-key", "before.json", "seal.json")
}

// TestComposeDoors: an agent without a network reaches a service through serve,
// which alone has one, with a credential that is in serve alone.
func TestComposeDoors(t *testing.T) {
	s := newStack(t)
	s.doors = true
	const canary = "canary-secret-of-a-service"
	seen := make(chan string, 8)
	service, roots := tlsService(t, s.outside(), func(w http.ResponseWriter, r *http.Request) {
		seen <- r.URL.Path + " " + r.Header.Get("Authorization")
		_, _ = fmt.Fprint(w, "answer for ", r.Header.Get("Authorization"))
	})
	services := fmt.Sprintf("services:\n  - {name: model, base: %q, auth: {kind: header, name: Authorization, prefix: \"Bearer \"}, secret: {keyring: model}, paths: [/v1/]}\n", service)
	s.policy(`wget -qO a.txt $PROCTOR_SERVICES/model/v1/x; wget -qO a2.txt $PROCTOR_SERVICES/model/admin; grep -r canary /proc/self/environ /run && exit 9; `+
		`wget -T 2 -qO a3.txt `+strings.Replace(service, "https", "http", 1)+`/; exit 4`, []string{goodCheck}, inside+services)
	if text, _ := s.try("run", "--rm", "-T", "seal"); text != "" {
		t.Errorf("sealed without the secret: %s", text)
	}
	s.down()
	s.must("printf '%s\\n' " + canary + " | docker compose run --rm --no-deps -T give secret model")
	if err := os.WriteFile(filepath.Join(s.dir, "roots.pem"), roots, 0o644); err != nil {
		t.Fatal(err)
	}
	s.must("docker compose run --rm --no-deps -T give roots < roots.pem")
	p := s.sealed(s.seal(exitOK))
	if p.Agent == nil || p.Agent.Exit != 4 {
		t.Errorf("agent: %+v", p.Agent)
	}
	select {
	case got := <-seen:
		if got != "/v1/x Bearer "+canary {
			t.Errorf("the service saw %q", got)
		}
	default:
		t.Error("the service saw nothing")
	}
	if len(seen) != 0 {
		t.Errorf("the service saw more: %q", <-seen)
	}
	if out := s.must("docker compose run --rm --no-deps -T content a.txt"); strings.Trim(out, "*") != "answer for Bearer " {
		t.Errorf("the agent got %q", out)
	}
	s.noKeyIsNear("check-c0")
	s.nowhere(canary)
}

// outside is an address of the host's that the supervisor's network reaches.
func (s *stack) outside() string {
	s.Helper()
	network := strings.TrimSpace(s.docker("", "network", "create", "proctortest-host"))
	s.Cleanup(func() { s.docker("", "network", "rm", network) })
	return strings.TrimSpace(s.docker("", "network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", network))
}

// nowhere: neither configuration nor log of a container shows a secret.
func (s *stack) nowhere(secret string) {
	s.Helper()
	ids := strings.Fields(s.docker("", "ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project="+s.project))
	if text := s.docker("", append([]string{"inspect"}, ids...)...); strings.Contains(text, secret) {
		s.Error("the secret is in a container's configuration")
	}
	for _, id := range ids {
		if text := s.docker("", "logs", id); strings.Contains(text, secret) {
			s.Errorf("the secret is in a log: %s", text)
		}
	}
}

// tlsService listens on an address with a certificate for it.
func tlsService(t *testing.T, host string, handle http.HandlerFunc) (url string, roots []byte) {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP(host)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: handle, ReadHeaderTimeout: time.Minute}}
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestComposeDemo is what the README tells a newcomer to run, with Debian's compose
// and with a current one, which make compose builds.
func TestComposeDemo(t *testing.T) {
	current := currentCompose(t)
	if out, err := exec.Command("make", "-C", "../..", "all").CombinedOutput(); err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	for name, compose := range map[string]string{"current": current, "Debian": "docker-compose"} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("make", "-C", "../..", "demo-compose")
			cmd.Env = append(os.Environ(), "DOCKER_HOST="+dockertest.Start(t).Host, "COMPOSE="+compose)
			out, err := cmd.CombinedOutput()
			text := string(out)
			if err != nil || !strings.Contains(text, "all came out as told") || strings.Contains(text, "NOT as told") {
				t.Errorf("%v:\n%s", err, text)
			}
			for _, line := range []string{"\nFAIL: session ", "  finding: git-hook ", "\nPASS: session ", "genuine seal, verdict PASS; waived: runtime-floor (exit 0)"} {
				if !strings.Contains(text, line) {
					t.Errorf("it prints no %q:\n%s", line, text)
				}
			}
		})
	}
}
