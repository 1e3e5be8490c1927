//go:build kubernetes

package pod_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/proctor-project/proctor/sandbox/kubernetes/kubetest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/programs"
)

// site is a namespace with a product in a claim, a key in a Secret, and the
// operator's side of both.
type site struct {
	*kubetest.Cluster
	dir string // bin, site, home, public.json
	mem string // of agent; "" is 64 MiB
}

const claimed = "proctor-product"

func newSite(t *testing.T, more map[string][]byte) *site {
	t.Helper()
	built := programs.Need(t)
	s := &site{Cluster: kubetest.Start(t)}
	dir, err := os.MkdirTemp("/tmp", "proctor-pod-")
	s.must(err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.dir = dir
	s.must(os.Chmod(dir, 0o755))
	s.must(os.Symlink(built, filepath.Join(dir, "bin")))
	product := filepath.Join(dir, "site")
	s.must(os.MkdirAll(filepath.Join(product, "sub"), 0o755))
	s.must(os.Mkdir(filepath.Join(product, "closed"), 0o555))
	for name, text := range map[string]string{"a.txt": "one\n", "sub/b.txt": "two\n", "closed/file": "three\n", "test.sh": "test -f a.txt && ! test -e broken\n"} {
		s.must(os.WriteFile(filepath.Join(product, name), []byte(text), 0o644))
	}
	git := exec.Command("git", "init", "-q", product)
	git.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	s.must(git.Run())
	s.Import([]byte(s.proctor(0, "render", "image")))
	s.ImportBusybox(more)
	s.proctor(0, "init")
	s.must(os.WriteFile(filepath.Join(dir, "public.json"), []byte(s.proctor(0, "keys", "export-public")), 0o600))
	s.Kubectl("", "create", "secret", "generic", "proctor-root", "--from-file", filepath.Join(dir, "home", "keys", "root"))
	s.claim(claimed, product, "ReadOnlyMany")
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// volume is a directory of the node, for the claim of that name.
func (s *site) volume(name, dir, mode, size string) {
	s.Helper()
	volume := s.Namespace + "-" + name
	s.Kubectl(fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  capacity: {storage: %s}
  accessModes: [%s]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  hostPath: {path: %s, type: Directory}
  claimRef: {namespace: %s, name: %s}
`, volume, size, mode, dir, s.Namespace, name), "apply", "-f", "-")
	s.Cleanup(func() { s.Kubectl("", "delete", "persistentvolume", volume, "--wait=false") })
}

func (s *site) claim(name, dir, mode string) {
	s.Helper()
	s.volume(name, dir, mode, "1Gi")
	s.Kubectl(fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s}
spec:
  accessModes: [%s]
  storageClassName: ""
  resources: {requests: {storage: 1Gi}}
`, name, mode), "apply", "-f", "-")
}

// proctor is the operator's; it returns standard output.
func (s *site) proctor(want int, args ...string) string {
	s.Helper()
	out, _ := s.says(want, args...)
	return out
}

func (s *site) says(want int, args ...string) (string, string) {
	s.Helper()
	cmd := exec.Command(filepath.Join(s.dir, "bin", "proctor"), append([]string{"--home", filepath.Join(s.dir, "home")}, args...)...)
	cmd.Dir = s.dir
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != want {
		s.Fatalf("proctor %v: exit %d, want %d: %v: %s", args, code, want, err, problems.String())
	}
	return out.String(), problems.String()
}

const consent = "observer: {chain: allow}\nallow: [runtime-floor, no-limits]\n"

// render writes the Pod of an agent that is a shell script.
func (s *site) render(script string, checks []string, more string, flags ...string) string {
	s.Helper()
	file, _ := s.rendered(0, script, checks, more, flags...)
	return file
}

func (s *site) rendered(want int, script string, checks []string, more string, flags ...string) (file, said string) {
	s.Helper()
	memory := cmp.Or(s.mem, "64MiB")
	argv := func(script string) string {
		if strings.HasPrefix(script, "[") {
			return script
		}
		b, err := json.Marshal([]string{"sh", "-c", script})
		s.must(err)
		return string(b)
	}
	image := fmt.Sprintf("image: {kind: image, ref: %q}", s.Busybox)
	policy := "version: 1\nagent:\n  engine: docker\n  " + image + "\n  timeout: 1m\n  limits: {memory: " + memory + "}\n  command: " + argv(script) + "\nchecks:\n"
	for i, check := range checks {
		policy += fmt.Sprintf("  - name: c%d\n    argv: %s\n", i, argv(check))
	}
	s.must(os.WriteFile(filepath.Join(s.dir, "policy.yaml"), []byte(policy+more), 0o644))
	return s.says(want, append([]string{"render", "kubernetes", "--policy", "policy.yaml", "--product", "/srv/site", "--claim", claimed}, flags...)...)
}

const podName = "proctor-session"

// apply runs the Pod to its end.
func (s *site) apply(file string) *corev1.Pod {
	s.Helper()
	s.start(file)
	return s.ended()
}

func (s *site) start(file string) {
	s.Helper()
	s.Kubectl("", "delete", "pod", podName, "--ignore-not-found", "--grace-period=0", "--force")
	s.Kubectl(file, "apply", "-f", "-")
}

func (s *site) ended() *corev1.Pod {
	s.Helper()
	s.Await(func(phase string) bool { return phase == "Succeeded" || phase == "Failed" }, "get", "pod", podName, "-o", "jsonpath={.status.phase}")
	return s.status()
}

func (s *site) status() *corev1.Pod {
	s.Helper()
	var p corev1.Pod
	s.must(json.Unmarshal([]byte(s.Kubectl("", "get", "pod", podName, "-o", "json")), &p))
	return &p
}

// end is the last word of seal in the Pod's status.
type end struct {
	Session, Verdict string
	SealSHA256       string `json:"seal_sha256"`
	Reasons          []string
	exit             int32
}

func (s *site) end(p *corev1.Pod) end {
	s.Helper()
	t := p.Status.ContainerStatuses[0].State.Terminated
	if t == nil {
		s.Fatalf("seal did not run: %s", s.told(p))
	}
	e := end{exit: t.ExitCode}
	if err := json.Unmarshal([]byte(t.Message), &e); err != nil {
		s.Fatalf("seal's message %q: %v: %s", t.Message, err, s.told(p))
	}
	return e
}

// told is what every container said, for a test that fails.
func (s *site) told(p *corev1.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n", p.Status.Phase, p.Status.Reason, p.Status.Message)
	for _, c := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
		out, err := s.Try("", "logs", podName, "-c", c.Name, "--tail=20")
		fmt.Fprintf(&b, "%s: %+v %+v\n%s %v\n", c.Name, c.State.Terminated, c.State.Waiting, out, err)
	}
	events, _ := s.Try("", "get", "events")
	return b.String() + events
}

// verdict runs a session, verifies its seal offline from what kubectl logs says,
// and returns the seal's statement.
func (s *site) verdict(want string, file string) (end, string) {
	s.Helper()
	p := s.apply(file)
	e := s.end(p)
	exits := map[string]int{"PASS": 0, "FAIL": 1, "INDETERMINATE": 3}
	if e.Verdict != want || e.exit != int32(exits[want]) {
		s.Fatalf("%s, exit %d, want %s: %q\n%s", e.Verdict, e.exit, want, e.Reasons, s.told(p))
	}
	log := s.Kubectl("", "logs", podName, "-c", "seal")
	seal, rest, _ := strings.Cut(log, "\n")
	if !strings.HasPrefix(rest, want+": session "+e.Session) {
		s.Errorf("seal's log: %s", rest)
	}
	s.must(os.WriteFile(filepath.Join(s.dir, "seal.json"), []byte(seal), 0o600))
	s.proctor(exits[want], "verify", "--public-key", "public.json", "--require", "signature", "seal.json")
	var envelope struct{ Payload string }
	s.must(json.Unmarshal([]byte(seal), &envelope))
	payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
	s.must(err)
	for _, c := range p.Status.InitContainerStatuses {
		if c.RestartCount != 0 {
			s.Errorf("%s restarted %d times", c.Name, c.RestartCount)
		}
	}
	return e, string(payload)
}

const goodCheck = "cat a.txt && sh test.sh"

// TestPodSession: PASS and FAIL by kubectl alone, agents and checks that fail
// included, and another session the second time.
func TestPodSession(t *testing.T) {
	s := newSite(t, nil)
	file := s.render("echo agent > a.txt; exit 7", []string{goodCheck}, consent)
	first, _ := s.verdict("PASS", file)
	second, _ := s.verdict("PASS", file)
	if first.Session == second.Session || first.SealSHA256 == second.SealSHA256 {
		t.Errorf("the second run: %+v after %+v", second, first)
	}
	if data, err := os.ReadFile(filepath.Join(s.dir, "site", "a.txt")); err != nil || string(data) != "one\n" {
		t.Errorf("the original: %q, %v", data, err)
	}
	e, log := s.verdict("FAIL", s.render("touch broken; echo 'touch /tmp/x' > .git/hooks/post-checkout; chmod 755 .git/hooks/post-checkout", []string{goodCheck, "exit 5"}, consent))
	if text := strings.Join(e.Reasons, "\n"); !strings.Contains(text, "check c0 failed: exit 1") || !strings.Contains(text, "check c1 failed: exit 5") || !strings.Contains(log, ".git/hooks/post-checkout") {
		t.Errorf("%q\n%s", e.Reasons, log)
	}
	e, _ = s.verdict("INDETERMINATE", s.render("true", []string{goodCheck}, "allow: [runtime-floor, no-limits]\n"))
	if !strings.Contains(strings.Join(e.Reasons, "\n"), "observed from inside") {
		t.Errorf("without consent: %q", e.Reasons)
	}
}
