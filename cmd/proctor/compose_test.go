package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sandbox/docker/dockertest"
	"github.com/proctor-project/proctor/sidecar/seal"
)

// composeVariable names another compose than Debian's docker-compose.
const composeVariable = "PROCTOR_TEST_COMPOSE"

// stack is a compose project on a daemon of its own, with a product.
type stack struct {
	*desk
	host, project string
	compose       []string
	files         []string
	doors         bool // serve has a network
}

func newStack(t *testing.T) *stack {
	t.Helper()
	d := newDesk(t)
	daemon := dockertest.Start(t)
	s := &stack{desk: d, host: daemon.Host, project: "proctortest", compose: []string{"docker-compose"}, files: []string{"compose.yaml"}}
	if other := os.Getenv(composeVariable); other != "" {
		s.compose = []string{other}
	}
	if _, err := exec.LookPath(s.compose[0]); err != nil {
		t.Fatalf("no compose: %v", err)
	}
	s.docker(d.output(exitOK, "render", "image"), "load")
	s.busybox()
	if err := os.WriteFile(filepath.Join(d.dir, "site", "test.sh"), []byte("test -f a.txt && ! test -e broken\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.run(exitOK, "down", "--volumes", "--remove-orphans", "--timeout", "1") })
	return s
}

// busybox gives the daemon an image in which an agent and a check find a shell.
func (s *stack) busybox() {
	s.Helper()
	dir := s.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		s.Fatal(err)
	}
	program, err := os.ReadFile("/usr/bin/busybox")
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, "busybox"), program, 0o755)
	}
	for _, name := range []string{"sh", "cat", "ls", "mkdir", "chmod", "id", "sleep", "find", "grep", "kill", "touch", "wget"} {
		err = errors.Join(err, os.Symlink("busybox", filepath.Join(bin, name)))
	}
	if err != nil {
		s.Fatal(err)
	}
	archive, err := exec.Command("tar", "-C", dir, "-c", "bin").Output()
	if err != nil {
		s.Fatal(err)
	}
	s.docker(string(archive), "import", "-", "busybox-test:1")
}

func (s *stack) docker(stdin string, args ...string) string {
	s.Helper()
	cmd := exec.Command("docker", append([]string{"-H", s.host}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("docker %v: %v: %s", args, err, out)
	}
	return string(out)
}

// policy renders the stack of an agent that is a shell script.
func (s *stack) policy(script string, checks []string, more string) {
	s.Helper()
	argv, err := json.Marshal([]string{"sh", "-c", script})
	if err != nil {
		s.Fatal(err)
	}
	policy := "version: 1\nagent:\n  engine: docker\n  image: {kind: image, ref: \"busybox-test:1\"}\n  timeout: 1m\n  command: " + string(argv) + "\n"
	if len(checks) > 0 {
		policy += "checks:\n"
	}
	for i, check := range checks {
		argv, _ = json.Marshal([]string{"sh", "-c", check})
		policy += fmt.Sprintf("  - name: c%d\n    argv: %s\n", i, argv)
	}
	path := filepath.Join(s.dir, "policy.yaml")
	if err := os.WriteFile(path, []byte(policy+more), 0o644); err != nil {
		s.Fatal(err)
	}
	file := s.output(exitOK, "render", "compose", "--policy", path)
	if err := os.WriteFile(filepath.Join(s.dir, "compose.yaml"), []byte(file), 0o644); err != nil {
		s.Fatal(err)
	}
}

const inside = "observer: {chain: allow}\nallow: [runtime-floor]\n"

func (s *stack) run(want int, args ...string) string {
	s.Helper()
	out, code, progress := s.say(args...)
	if code != want {
		s.Fatalf("compose %v: exit %d, want %d:\n%s\n%s", args, code, want, out, progress)
	}
	return out
}

func (s *stack) try(args ...string) (string, int) {
	out, code, _ := s.say(args...)
	return out, code
}

// command is what stands for docker compose on the page.
func (s *stack) command() []string {
	argv := append(append([]string{}, s.compose...), "-p", s.project)
	for _, file := range s.files {
		argv = append(argv, "-f", filepath.Join(s.dir, file))
	}
	return argv
}

func (s *stack) env() []string {
	return append(os.Environ(), "DOCKER_HOST="+s.host, "COMPOSE_HTTP_TIMEOUT=600", "PROCTOR_PRODUCT="+filepath.Join(s.dir, "site"))
}

// say returns standard output, which is the steps' own, the status, and what
// compose says of itself.
func (s *stack) say(args ...string) (string, int, string) {
	s.Helper()
	argv := append(s.command(), args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = s.env()
	var out, progress bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &progress
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode(), progress.String()
}

// seal is the whole session.
func (s *stack) seal(want int) string {
	s.Helper()
	return s.run(want, "run", "--rm", "-T", "seal")
}

// sealed exports the newest seal and verifies it offline, with the exported
// public key and the manifest.
func (s *stack) sealed(text string) seal.Predicate {
	s.Helper()
	_, rest, _ := strings.Cut(text, ": session ")
	session, _, _ := strings.Cut(rest, ",")
	for name, args := range map[string][]string{
		"public.json": {"public-key"}, "seal.json": {"export", session + ".json"}, "seal.manifest": {"export", session + ".manifest"},
	} {
		out := s.run(exitOK, append([]string{"run", "--rm", "--no-deps", "-T"}, args...)...)
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(out), 0o600); err != nil {
			s.Fatal(err)
		}
	}
	want := map[string]int{"PASS": exitOK, "FAIL": exitFail, "INDE": exitIndeterminate}[text[:4]]
	s.output(want, "verify", "--public-key", "public.json", "--require", "signature,manifest", "seal.json")
	env, err := os.ReadFile(filepath.Join(s.dir, "seal.json"))
	if err != nil {
		s.Fatal(err)
	}
	_, payload, err := keys.Payload(env)
	if err != nil {
		s.Fatal(err)
	}
	st, err := seal.Parse(payload)
	if err != nil {
		s.Fatal(err)
	}
	if st.Predicate.Observer != "chain" || st.Predicate.Session != session {
		s.Errorf("observer %q, session %q", st.Predicate.Observer, st.Predicate.Session)
	}
	return st.Predicate
}

const goodCheck = "cat a.txt && sh test.sh"

func (s *stack) down() {
	s.Helper()
	s.run(exitOK, "down", "--remove-orphans", "--timeout", "1")
}

// TestComposeStack walks the whole stack, again and again over the same volumes.
func TestComposeStack(t *testing.T) {
	s := newStack(t)
	// An agent that exits with an error is judged by what it left.
	s.policy("touch /tmp/x && test ! -e again && touch again && echo agent > a.txt; exit 7", []string{goodCheck}, inside)
	text := s.seal(exitOK)
	p := s.sealed(text)
	if p.Agent == nil || p.Agent.Exit != 7 || p.Agent.Outcome != "exited" || p.Agent.Reported != "inside" {
		t.Errorf("agent: %+v", p.Agent)
	}
	if len(p.Checks) != 1 || p.Checks[0].Reported != "inside" || !p.Checks[0].Passed || p.BeforeChecks == "" {
		t.Errorf("checks: %+v", p.Checks)
	}
	s.noKeyIsNear("check-c0")
	first := p.Session
	if p = s.sealed(s.seal(exitOK)); p.Session == first || p.Agent.Exit != 7 || p.Baseline.Tree == p.BeforeChecks {
		t.Errorf("second run: %+v", p)
	}
	if text := s.run(exitRefused, "run", "--rm", "--no-deps", "-T", "seal"); text != "" {
		t.Errorf("a session was sealed twice: %s", text)
	}
	if data, err := os.ReadFile(filepath.Join(s.dir, "site", "a.txt")); err != nil || string(data) != "one\n" {
		t.Errorf("the original: %q, %v", data, err)
	}

	// Compose may keep containers of the file before: their session is not sealed
	// as this one's.
	s.policy("touch broken; echo 'touch /tmp/x' > .git/hooks/post-checkout; chmod 755 .git/hooks/post-checkout", []string{goodCheck}, inside)
	s.run(exitRefused, "run", "--rm", "--no-deps", "-T", "seal")
	s.down()
	text = s.seal(exitFail)
	if !strings.HasPrefix(text, "FAIL: ") || !strings.Contains(text, ".git/hooks/post-checkout") || !strings.Contains(text, "check c0 failed: exit 1") {
		t.Errorf("hook and check: %s", text)
	}
	if p := s.sealed(text); len(p.Findings) == 0 {
		t.Errorf("hook: %+v", p.Findings)
	}

	s.policy("echo agent > a.txt", []string{goodCheck}, "allow: [runtime-floor]\n")
	s.down()
	if text := s.seal(exitIndeterminate); !strings.Contains(text, "the session was observed from inside, and the policy does not accept that") {
		t.Errorf("without consent: %s", text)
	}
}

// TestComposeHostile: what an agent and a check do to be believed.
func TestComposeHostile(t *testing.T) {
	s := newStack(t)
	const again = "/.proctor/bin/proctor-agent init --report "
	// Neither a second lifeline nor a signal to the first process is anything.
	s.policy(again+"/run/proctor/supervisor.sock -- true; s=$?; kill -9 1; kill -11 1; test $s = 125 && exit 9",
		[]string{again + "/run/checks/c0.sock -- true; test $? = 125 && ! touch a.txt && exit 5", "kill -9 $$"}, inside)
	text := s.seal(exitFail)
	if p := s.sealed(text); p.Agent == nil || p.Agent.Exit != 9 {
		t.Errorf("second lifeline: %+v", p.Agent)
	}
	if !strings.Contains(text, "check c0 failed: exit 5") || !strings.Contains(text, "check c1 failed: signalled") {
		t.Errorf("checks: %s", text)
	}

	// The reader's file is believed only as the reader told of it.
	s.policy("echo agent > a.txt", []string{goodCheck}, inside)
	s.down()
	s.run(exitOK, "run", "--rm", "-T", "read")
	volume := s.project + "_facts:/facts"
	s.docker("", "run", "--rm", "--network", "none", "-v", volume, "busybox-test:1", "sh", "-c", "cat /facts/product.stream > /facts/x && echo >> /facts/product.stream")
	if text := s.run(exitIndeterminate, "run", "--rm", "--no-deps", "-T", "seal"); text != "" {
		t.Errorf("another stream: %s", text)
	}
	s.docker("", "run", "--rm", "--network", "none", "-v", volume, "busybox-test:1", "sh", "-c", "cat /facts/x > /facts/product.stream")
	if text := s.run(exitOK, "run", "--rm", "--no-deps", "-T", "seal"); !strings.HasPrefix(text, "PASS") {
		t.Errorf("the stream itself: %s", text)
	}

	// A container that is killed leaves no seal, and the next run is whole.
	s.policy("sleep 60", []string{goodCheck}, inside)
	s.down()
	ended := make(chan int, 1)
	go func() {
		_, code := s.try("run", "--rm", "-T", "seal")
		ended <- code
	}()
	name := s.awaitAgent()
	before := s.run(exitOK, "run", "--rm", "--no-deps", "-T", "export")
	s.docker("", "kill", name)
	if code := <-ended; code == exitOK {
		t.Error("an agent that was killed passed")
	}
	if after := s.run(exitOK, "run", "--rm", "--no-deps", "-T", "export"); after != before {
		t.Errorf("seals before %s, after %s", before, after)
	}
	s.policy("echo agent > a.txt", []string{goodCheck}, inside)
	s.down()
	s.sealed(s.seal(exitOK))
}

// awaitAgent waits until the agent's container runs.
func (s *stack) awaitAgent() string {
	s.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for {
		if id := strings.TrimSpace(s.docker("", "ps", "--quiet", "--filter", "label=com.docker.compose.service=agent")); id != "" {
			return id
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.Fatal("no agent runs")
		}
	}
}

// noKeyIsNear: what the daemon mounted into each of the last run's containers.
func (s *stack) noKeyIsNear(check string) {
	s.Helper()
	secret := []string{"root", "ledger-keys", "ledger", "session", "seals", "doors", "cache"}
	mounts := map[string]string{}
	for _, id := range strings.Fields(s.docker("", "ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project="+s.project)) {
		line := s.docker("", "inspect", "--format", `{{index .Config.Labels "com.docker.compose.service"}} {{.HostConfig.NetworkMode}} {{.HostConfig.Privileged}} {{range .Mounts}}{{.Name}}{{.Source}} {{end}}`, id)
		service, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		mounts[service] = rest
		if network := map[bool]string{true: s.project + "_doors", false: "none"}[s.doors && service == "serve"]; !strings.HasPrefix(rest, network+" false ") || strings.Contains(rest, "docker.sock") {
			s.Errorf("service %s: %s", service, rest)
		}
	}
	has := func(service, volume string) bool { return strings.Contains(mounts[service], s.project+"_"+volume+"/") }
	for _, service := range []string{"agent", check, "before", "read", "stage", "prepare"} {
		if mounts[service] == "" {
			s.Errorf("service %s was not seen", service)
		}
		for _, volume := range secret {
			if has(service, volume) {
				s.Errorf("service %s has the volume %s", service, volume)
			}
		}
	}
	// The same look finds them where they are.
	if !has("init", "root") || !has("open", "root") || !has("serve", "session") || has("serve", "root") {
		s.Errorf("mounts: %v", mounts)
	}
	found := s.docker("", "run", "--rm", "--network", "none", "-v", s.project+"_root:/keys", "busybox-test:1", "find", "/keys", "-type", "f")
	if !strings.Contains(found, "/keys/") {
		s.Errorf("no key in its own volume: %s", found)
	}
}

// TestRenderedStack: the stack of the repository is its policy's, and an image's
// bytes are the same each time.
func TestRenderedStack(t *testing.T) {
	d := newDesk(t)
	path, err := filepath.Abs("../../compose/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := d.output(exitOK, "render", "compose", "--policy", path)
	got, err := os.ReadFile("../../compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("compose/compose.yaml is not what proctor render compose --policy compose/policy.yaml writes")
	}
	if first, second := d.output(exitOK, "render", "image"), d.output(exitOK, "render", "image"); first != second {
		t.Error("two archives of the same programs differ")
	}
	refused := map[string]string{
		"mounts of the agent": "version: 1\nagent: {command: [x], image: {kind: image, ref: x}, mounts: [{source: /opt/a, target: /opt/a}]}\n",
		"image of kind host":  "version: 1\nagent: {command: [x]}\n",
		"no command":          "version: 1\nagent: {image: {kind: image, ref: x}}\n",
	}
	for why, text := range refused {
		path := filepath.Join(d.dir, "refused.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := d.proctor("render", "compose", "--policy", path)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitRefused || !strings.Contains(string(out), why) {
			t.Errorf("%s: %s", why, out)
		}
	}
}
