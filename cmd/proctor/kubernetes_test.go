//go:build kubernetes

package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sandbox/kubernetes/kubetest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/programs"
)

// cluster is a desk whose sessions run on the test cluster, in a namespace of
// their own.
type cluster struct {
	*desk
	*kubetest.Cluster
	dir      string
	launcher string // kubeconfig of who runs proctor
}

const clusterPolicy = `version: 1
agent:
  engine: kubernetes
  image: {kind: image, ref: "BUSYBOX"}
  timeout: 2m
checks:
  - name: unit
    argv: [sh, test.sh]
    image: {kind: image, ref: "BUSYBOX"}
observer: {chain: allow}
allow: [runtime-floor, no-limits]
`

// policy is clusterPolicy, with the image that the test imported.
func (c *cluster) policy() string { return strings.ReplaceAll(clusterPolicy, "BUSYBOX", c.Busybox) }

func newCluster(t *testing.T) *cluster {
	t.Helper()
	d := newDesk(t)
	c := &cluster{desk: d, Cluster: kubetest.Start(t), dir: d.dir}
	c.launcher = c.Kubeconfig
	archive, err := d.proctor("render", "image").Output()
	if err != nil {
		t.Fatal(err)
	}
	c.Import(archive)
	c.ImportBusybox(nil)
	ledger := filepath.Join(d.dir, "ledger")
	if err := os.Mkdir(ledger, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(ledger, 64003, 64003); err != nil {
		t.Fatal(err)
	}
	c.Kubectl(fmt.Sprintf(`apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: %[2]s}
  storageClassName: %[1]s
  persistentVolumeReclaimPolicy: Retain
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: proctor-ledger}
spec: {accessModes: [ReadWriteOnce], storageClassName: %[1]s, resources: {requests: {storage: 1Gi}}}
`, c.Namespace, ledger), "apply", "-f", "-")
	t.Cleanup(func() { c.Kubectl("", "delete", "pv", c.Namespace, "--wait=false") })
	t.Cleanup(func() { c.Kubectl("", "delete", "pods", "--all", "--wait=true", "--grace-period=0", "--force") })
	if err := os.WriteFile(filepath.Join(d.dir, "home", "policy.yaml"), []byte(c.policy()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.says(exitOK, "init", "--engine", "kubernetes", "--namespace", c.Namespace)
	return c
}

// proctorIn is a proctor of this cluster.
func (c *cluster) proctorIn(args ...string) *exec.Cmd {
	cmd := c.desk.proctor(args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.launcher)
	return cmd
}

func (c *cluster) says(want int, args ...string) string {
	c.desk.Helper()
	cmd := c.proctorIn(args...)
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != want {
		c.desk.Fatalf("proctor %v: ended with %d (%v), want %d:\n%s", args, got, err, want, out)
	}
	return string(out)
}

func (c *cluster) product(name, check string) string {
	c.desk.Helper()
	dir := filepath.Join(c.dir, name)
	for file, content := range map[string]string{"test.sh": check, "README": name + "\n"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			c.desk.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
			c.desk.Fatal(err)
		}
	}
	return dir
}

// verdict runs a session and reads its document.
func (c *cluster) verdict(want int, product, script string) runDocument {
	c.desk.Helper()
	cmd := c.proctorIn("--json", "run", "--quiet", "--product", product, "--", "sh", "-c", script)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	var doc runDocument
	if jsonErr := json.Unmarshal(out, &doc); jsonErr != nil || cmd.ProcessState.ExitCode() != want {
		c.desk.Fatalf("%v, %v: %s\n%s", err, jsonErr, out, problems.String())
	}
	return doc
}

// TestKubernetes: a session of a Pod that this launcher brings the product to,
// follows and takes home, and what the operator does with it.
func TestKubernetes(t *testing.T) {
	c := newCluster(t)
	site := c.product("kube-site", "test -e made\n")
	doc := c.verdict(exitOK, site, "echo hello > made; exit 4")
	if len(doc.Checks) != 1 || doc.Checks[0].Reported != "inside" || doc.Verdict != "PASS" {
		t.Errorf("%s: %+v", doc.Verdict, doc.Checks)
	}
	if _, err := os.Stat(filepath.Join(site, "made")); !os.IsNotExist(err) {
		t.Errorf("the product was touched before apply: %v", err)
	}
	if text := c.says(exitOK, "log", doc.Session); !strings.Contains(text, "process-ended") {
		t.Errorf("log:\n%s", text)
	}
	c.says(exitOK, "sessions", "show", doc.Session)
	c.says(exitRefused, "audit", doc.Session)
	if text := c.says(exitOK, "apply", doc.Session); !strings.Contains(text, "1 written") {
		t.Errorf("apply: %s", text)
	}
	if got, err := os.ReadFile(filepath.Join(site, "made")); err != nil || string(got) != "hello\n" {
		t.Errorf("applied %q: %v", got, err)
	}
	// A trap is a FAIL until its content is approved, and the ledger is one for all
	// sessions of the namespace.
	trap := c.verdict(exitFail, site, "printf 'x=1\\n' > .envrc")
	if len(trap.Findings) != 1 {
		t.Errorf("findings: %+v", trap.Findings)
	}
	if err := os.WriteFile(filepath.Join(site, ".envrc"), []byte("x=1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.says(exitOK, "trust", "approve", "--engine", "kubernetes", filepath.Join(site, ".envrc"))
	if err := os.Remove(filepath.Join(site, ".envrc")); err != nil {
		t.Fatal(err)
	}
	if again := c.verdict(exitOK, site, "printf 'x=1\\n' > .envrc"); len(again.Findings) != 1 || !again.Findings[0].Approved {
		t.Errorf("approved findings: %+v", again.Findings)
	}
	if left := c.Kubectl("", "get", "pods", "-o", "name"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// TestKubernetesAttached: a container that somebody attaches while the agent
// runs makes the verdict INDETERMINATE, whatever else is right.
func TestKubernetesAttached(t *testing.T) {
	c := newCluster(t)
	site := c.product("kube-site", "true\n")
	done := make(chan runDocument, 1)
	go func() {
		defer close(done)
		done <- c.verdict(exitIndeterminate, site, "while ! test -e stop; do sleep 1; test $((i=i+1)) -lt 60 || exit 0; done")
	}()
	name := strings.TrimSpace(c.Await(func(s string) bool { return s != "" }, "get", "pods", "-l", "app.kubernetes.io/name=proctor-session", "-o", "jsonpath={.items[*].metadata.name}"))
	c.Await(func(s string) bool { return s != "" }, "get", "pod", name, "-o", "jsonpath={.status.initContainerStatuses[?(@.name=='agent')].state.running.startedAt}")
	c.Kubectl("", "patch", "pod", name, "--subresource", "ephemeralcontainers", "--type", "strategic", "-p",
		`{"spec":{"ephemeralContainers":[{"name":"debugger","image":"`+c.Busybox+`","command":["true"],"securityContext":{"allowPrivilegeEscalation":false,"runAsNonRoot":true,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}}]}}`)
	doc := <-done
	if text := strings.Join(doc.Problems, "; "); !strings.Contains(text, "ephemeralContainers") {
		t.Errorf("problems: %s", text)
	}
}

// TestKubernetesStopped: the operator's wish ends the agent, and the audit follows.
func TestKubernetesStopped(t *testing.T) {
	c := newCluster(t)
	cmd := c.running(c.product("kube-site", "true\n"))
	c.signal(cmd, syscall.SIGTERM)
	c.ends(cmd, exitOK)
	if st := c.session(); st.Verdict != "PASS" || st.Phase != "ended" {
		t.Errorf("%s, %s", st.Phase, st.Verdict)
	}
}

// TestKubernetesKilled: a launcher that is killed leaves a Pod without a verdict;
// the next one ends that.
func TestKubernetesKilled(t *testing.T) {
	c := newCluster(t)
	site := c.product("kube-site", "true\n")
	cmd := c.running(site)
	killed := c.session().Session
	c.signal(cmd, syscall.SIGKILL)
	_ = cmd.Wait()
	if c.pods() == "" {
		t.Error("the Pod went with its launcher: nothing was proved")
	}
	c.verdict(exitOK, site, "true")
	if left := c.pods(); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if text := c.says(exitOK, "sessions", "list"); !strings.Contains(text, killed+"\tended\tINDETERMINATE") {
		t.Errorf("sessions:\n%s", text)
	}
}

// running starts a session whose agent runs until it is stopped, and waits until
// it does.
func (c *cluster) running(site string) *exec.Cmd {
	c.desk.Helper()
	cmd := c.proctorIn("run", "--quiet", "--product", site, "--", "sh", "-c", "while sleep 1; do :; done")
	c.start(cmd)
	c.Await(func(s string) bool { return s != "" }, "get", "pods", "-l", "app.kubernetes.io/name=proctor-session",
		"-o", "jsonpath={.items[*].status.initContainerStatuses[?(@.name=='agent')].state.running.startedAt}")
	return cmd
}

func (c *cluster) pods() string {
	c.desk.Helper()
	return c.Kubectl("", "get", "pods", "-o", "name")
}

// TestKubernetesRole: a launcher with the Role of deploy/kubernetes/launcher runs
// sessions, and one that lacks any of its rights says which, and passes nothing.
func TestKubernetesRole(t *testing.T) {
	c := newCluster(t)
	c.asLauncher()
	site := c.product("kube-site", "true\n")
	c.verdict(exitOK, site, "true") // the positive control
	for _, lacks := range []struct{ without, path, says string }{
		{"create", "/rules/0/verbs/0", "cannot create resource \"pods\""},
		{"get", "/rules/0/verbs/1", "cannot get resource \"pods\""},
		{"list", "/rules/0/verbs/2", "cannot list resource \"pods\""},
		{"watch", "/rules/0/verbs/3", "cannot watch resource \"pods\""},
		{"delete", "/rules/0/verbs/4", "cannot delete resource \"pods\""},
		{"attach", "/rules/1", "cannot create resource \"pods/attach\""},
		{"log", "/rules/2", "cannot get resource \"pods/log\""},
	} {
		c.Kubectl("", "patch", "role", "proctor-launcher", "--type", "json", "-p", fmt.Sprintf(`[{"op":"remove","path":%q}]`, lacks.path))
		cmd := c.proctorIn("run", "--quiet", "--product", site, "--", "true")
		if lacks.without == "log" { // a verb's answer is its log
			cmd = c.proctorIn("trust", "list", "--engine", "kubernetes")
		}
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code == exitOK || !strings.Contains(string(out), lacks.says) {
			t.Errorf("without %s: ended with %d:\n%s", lacks.without, code, out)
		}
		c.Kubectl("", "apply", "-f", launcherRole)
		c.Kubectl("", "delete", "pods", "--all", "--grace-period=0", "--force")
	}
	c.Kubectl("", "patch", "role", "proctor-launcher", "--type", "json", "-p", `[{"op":"remove","path":"/rules/2"}]`)
	if said := c.says(exitOK, "run", "--product", site, "--", "echo", "hello"); !strings.Contains(said, "what agent prints is not shown") {
		t.Errorf("a session without output does not say so: %s", said)
	}
}

const launcherRole = "../../deploy/kubernetes/launcher/role.yaml"

// asLauncher gives proctor the credentials of the launcher's service account, and
// no others.
func (c *cluster) asLauncher() {
	t := c.desk
	t.Helper()
	c.Kubectl("", "apply", "-f", launcherRole)
	token := c.Kubectl("", "create", "token", "proctor-launcher")
	config := c.Kubectl("", "config", "view", "--raw", "--minify", "--flatten", "-o", "json")
	var doc map[string]any
	if err := json.Unmarshal([]byte(config), &doc); err != nil {
		t.Fatal(err)
	}
	doc["users"].([]any)[0].(map[string]any)["user"] = map[string]string{"token": token}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	c.launcher = filepath.Join(c.dir, "launcher.kubeconfig")
	if err := os.WriteFile(c.launcher, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKubernetesMany: sessions side by side, each with its own content and its
// own expected verdict.
func TestKubernetesMany(t *testing.T) {
	c := newCluster(t)
	const many = 20
	var wg sync.WaitGroup
	took := make([]time.Duration, many)
	for i := range many {
		name := fmt.Sprintf("kube-%d", i)
		want, check := exitOK, fmt.Sprintf("test \"$(cat made)\" = %s\n", name)
		if i%2 == 1 {
			want, check = exitFail, "test -e absent\n"
		}
		site := c.product(name, check)
		wg.Go(func() {
			began := time.Now()
			doc := c.verdict(want, site, "cat README > made")
			took[i] = time.Since(began)
			if doc.Verdict == "PASS" {
				c.says(exitOK, "apply", doc.Session)
				if got, err := os.ReadFile(filepath.Join(site, "made")); err != nil || string(got) != name+"\n" {
					t.Errorf("%s got %q: %v", name, got, err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("from submit to verdict: %v", took)
}

// TestKubernetesDoors: a service's door in a session that is followed, with what
// the operator gave the namespace for it, and the same without the waiver.
func TestKubernetesDoors(t *testing.T) {
	c := newCluster(t)
	canary := "canary-" + rand.Text()
	var asked atomic.Int32
	service, roots := c.ServeTLS(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") == canary {
			asked.Add(1)
		}
		_, _ = fmt.Fprintf(w, "your key is %s\n", r.Header.Get("X-Key"))
	})
	doors := fmt.Sprintf("services:\n  - {name: model, base: %q, auth: {kind: header, name: X-Key}, secret: {keyring: nowhere}}\n", service.URL)
	if err := os.WriteFile(filepath.Join(c.dir, "home", "policy.yaml"), []byte(c.policy()+doors), 0o600); err != nil {
		t.Fatal(err)
	}
	site := c.product("kube-site", "test -e made\n")
	run := []string{"run", "--quiet", "--product", site, "--", "sh", "-c", "busybox wget -qO- http://127.0.0.1:4100/other/x; busybox wget -qO made http://127.0.0.1:4100/model/x"}
	said := c.says(exitRefused, run...)
	if !strings.Contains(said, "share one network") || !strings.Contains(said, "--allow shared-network") || c.pods() != "" {
		t.Errorf("without the waiver: %s", said)
	}
	run = slices.Insert(run, 1, "--allow", "shared-network")
	// Without the Secret serve says what it needs, and the Pod is gone.
	said = c.says(exitIndeterminate, run...)
	if !strings.Contains(said, "secret of service model") || !strings.Contains(said, "kubectl create secret generic proctor-doors") || c.pods() != "" {
		t.Errorf("without the Secret: %s", said)
	}
	for name, content := range map[string]string{"model": canary, "roots": string(roots)} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.Kubectl("", "create", "secret", "generic", "proctor-doors", "--from-file", "service-model="+filepath.Join(c.dir, "model"), "--from-file", "roots.pem="+filepath.Join(c.dir, "roots"))
	said = c.says(exitOK, run...)
	if !strings.Contains(said, "proctor: refused: services: ") {
		t.Errorf("what the door refused is not told: %s", said)
	}
	if asked.Load() != 1 || !strings.Contains(said, "shared by the Pod's containers") ||
		!strings.Contains(said[strings.LastIndex(strings.TrimSpace(said), "\n"):], "waived: shared-network, runtime-floor, no-limits") {
		t.Errorf("asked %d times: %s", asked.Load(), said)
	}
	_, after, _ := strings.Cut(said, "proctor: session ")
	session, _, _ := strings.Cut(after, ",")
	c.says(exitOK, "apply", session)
	if got, err := os.ReadFile(filepath.Join(site, "made")); err != nil || !strings.HasPrefix(string(got), "your key is ") || strings.Contains(string(got), canary) {
		t.Errorf("the agent was told %q: %v", got, err)
	}
}

// TestKubernetesOOM: where the kernel ends a process of a guest's for want of
// memory nothing is sealed; the step is named, and the Pod is gone.
func TestKubernetesOOM(t *testing.T) {
	c := newCluster(t)
	const hog, limits = "busybox tail -c 300000000 /dev/zero; true", "limits: {memory: 64MiB}"
	policy := strings.Replace(c.policy(), "  timeout: 2m\n", "  timeout: 2m\n  "+limits+"\n", 1)
	policy = strings.Replace(policy, "    argv: [sh, test.sh]\n", "    argv: [sh, test.sh]\n    "+limits+"\n", 1)
	if err := os.WriteFile(filepath.Join(c.dir, "home", "policy.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	c.verdict(exitOK, c.product("kube-site", "true\n"), "true") // it is enough for others
	for step, session := range map[string]struct{ check, agent string }{"agent": {"true\n", hog}, "check-unit": {hog + "\n", "true"}} {
		said := c.says(exitIndeterminate, "run", "--quiet", "--product", c.product("kube-"+step, session.check), "--", "sh", "-c", session.agent)
		if !strings.Contains(said, step+": it was killed for memory; nothing is sealed") || c.pods() != "" {
			t.Errorf("%s: %s\nleft: %s", step, said, c.pods())
		}
	}
}

// TestKubernetesInterruptedTwice: the second wish to stop does not wait for an
// agent that does not listen: the Pod is deleted, and nothing is sealed.
func TestKubernetesInterruptedTwice(t *testing.T) {
	c := newCluster(t)
	policy := strings.Replace(c.policy(), "  timeout: 2m\n", "  timeout: 10m\n  grace: 5m\n", 1)
	if err := os.WriteFile(filepath.Join(c.dir, "home", "policy.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := c.proctorIn("run", "--product", c.product("kube-site", "true\n"), "--", "sh", "-c", "trap 'echo not yet' TERM; echo ready; while :; do sleep 1; done")
	said := programs.NewConsole()
	cmd.Stderr = said
	c.start(cmd)
	said.Await(t, patience, nil, "agent| ready")
	c.signal(cmd, syscall.SIGINT)
	said.Await(t, patience, nil, "agent| not yet")
	if c.pods() == "" {
		t.Error("the first signal deleted the Pod: nothing was proved")
	}
	c.signal(cmd, syscall.SIGINT)
	c.ends(cmd, exitIndeterminate)
	if left := c.pods(); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if st := c.session(); st.Verdict != "INDETERMINATE" || st.Phase != "ended" || st.Seals != 0 {
		t.Errorf("%s, %s, %d seals", st.Phase, st.Verdict, st.Seals)
	}
}

// TestKubernetesDemo: the tour, as `make demo-kubernetes` runs it on a cluster of
// its own.
func TestKubernetesDemo(t *testing.T) {
	kubetest.Start(t)
	if out, err := exec.Command("make", "-C", "../..", "all", "bin/demo-agent").CombinedOutput(); err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	out, err := exec.Command("../../scripts/demo-kubernetes").CombinedOutput()
	text := string(out)
	if err != nil || !strings.Contains(text, "all came out as told") || strings.Contains(text, "NOT as told") {
		t.Errorf("%v:\n%s", err, text)
	}
	for _, line := range []string{"  git-hook               .git/hooks/post-checkout       trap, new", "\nFAIL (exit 1): ", "\nPASS (exit 0): ", "genuine seal, verdict PASS"} {
		if !strings.Contains(text, line) {
			t.Errorf("it prints no %q:\n%s", line, text)
		}
	}
}
