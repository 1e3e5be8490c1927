//go:build kubernetes

package pod_test

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/proctor-project/proctor/sandbox/chain"
	"github.com/proctor-project/proctor/sandbox/kubernetes/pod"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// conformance is the suite's payload in a Pod: what it tried as agent and as
// check, and its process as the host sees it.
type conformance struct {
	*site
	asserted map[string]bool
}

func (c *conformance) property(t *testing.T, name string, run func(t *testing.T)) {
	c.asserted[name] = true
	t.Run(name, run)
}

// try is a command line of the payload.
func try(ops ...[]string) []string {
	argv := []string{"/bin/payload", "try"}
	for i, op := range ops {
		if i > 0 {
			argv = append(argv, "--")
		}
		argv = append(argv, op...)
	}
	return argv
}

func (c *conformance) argv(words []string) string {
	b, err := json.Marshal(words)
	c.must(err)
	return string(b)
}

// TestPodConformance: the properties of the suite that mean something in a Pod,
// by the suite's payload and its own judgement.
func TestPodConformance(t *testing.T) {
	s := newSite(t, nil)
	s.mem = "1GiB"
	payload, err := os.ReadFile(sandboxtest.BuildPayload(t))
	s.must(err)
	s.ImportBusybox(map[string][]byte{"/bin/payload": payload})
	c := &conformance{s, map[string]bool{}}
	c.process(t)
	c.inside(t)
	c.ends(t)
	for name, a := range properties() {
		if (a.test == here) != c.asserted[name] {
			t.Errorf("%q: said to be asserted here: %v, and it is: %v", name, a.test == here, c.asserted[name])
		}
	}
}

// process looks at a running agent from the host.
func (c *conformance) process(t *testing.T) {
	token := strings.ToLower(rand.Text())
	c.start(c.render(c.argv([]string{"/bin/payload", "wait", token}), []string{goodCheck}, consent))
	c.Await(func(out string) bool { return out != "" }, "get", "pod", podName, "-o",
		`jsonpath={.status.initContainerStatuses[?(@.name=="agent")].state.running.startedAt}`)
	pid := sandboxtest.Waiting(t, token)
	c.property(t, "identity", func(t *testing.T) { sandboxtest.Confined(t, pid, chain.GuestID, pod.Group) })
	c.property(t, "namespaces", func(t *testing.T) {
		for _, name := range []string{"pid", "ipc", "net", "uts", "mnt"} {
			if sandboxtest.Namespace(t, pid, name) == sandboxtest.Namespace(t, 0, name) {
				t.Errorf("the agent is in the host's %s namespace", name)
			}
		}
	})
	c.must(syscall.Kill(pid, syscall.SIGTERM))
	if p := c.ended(); p.Status.Phase != corev1.PodSucceeded {
		t.Error(c.told(p))
	}
}

// inside reads what the payload was told as an agent, and as a check.
func (c *conformance) inside(t *testing.T) {
	surface := sandboxtest.KernelSurface()
	victim := exec.Command("sleep", "600")
	victim.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: chain.GuestID, Gid: chain.GuestID}}
	c.must(victim.Start())
	defer func() { _, _ = victim.Process.Kill(), victim.Wait() }()
	files := [][]string{
		{"write", "/srv/site/new", "x"},
		{"remove", "/srv/site/new"},
		{"write", "/run/proctor/new", "x"},
		{"remove", "/run/proctor/supervisor.sock"},
		{"write", "/.proctor/bin/new", "x"},
		{"write", "/new", "x"},
		{"mkdir", "/bin/new"},
		{"exec", "/tmp/copy"},
		{"remove", "/tmp/copy"},
		{"fill", "/tmp/big", "300000000"},
		{"stat", "/var/run/secrets/kubernetes.io"},
		{"stat", "/keys"},
		{"stat", "/control"},
	}
	agent := slices.Concat(surface, files, [][]string{{"environ"}, {"interfaces"}, {"dial", "unix", "/run/proctor/supervisor.sock"}})
	odd := []string{"nothing", "$(touch /x)", "$(HOME)", "; &", "", "*", "ü\n"}
	check := slices.Concat(surface, [][]string{
		{"read", "/srv/site/a.txt"},
		{"write", "/srv/site/a.txt", "x"},
		{"write", "/srv/site/new", "x"},
		{"remove", "/srv/site/a.txt"},
		{"chmod", "chmod", "/srv/site/a.txt", "600"},
		{"mkdir", "/srv/site/dir"},
		{"write", "/new", "x"},
		{"write", "/run/proctor/new", "x"},
		{"killall"},
		{"environ"},
		{"status"},
		odd,
	})
	c.verdict("PASS", c.render(c.argv(try(agent...)), []string{c.argv(try(check...))}, consent))
	did := sandboxtest.Read(t, c.Kubectl("", "logs", podName, "-c", "agent"), len(agent))
	checked := sandboxtest.Read(t, c.Kubectl("", "logs", podName, "-c", "check-c0"), len(check))
	n := len(surface)
	c.property(t, "kernel surface", func(t *testing.T) {
		did[:n].Refused(t)
		checked[:n].Refused(t)
	})
	c.property(t, "binds", func(t *testing.T) {
		did[n:].Want(t, "", "", "EROFS", "EROFS", "EROFS")
		checked[n:].Want(t, "", "EROFS", "EROFS", "EROFS", "EROFS", "EROFS", "EROFS", "ENOENT")
	})
	c.property(t, "root and tmpfs", func(t *testing.T) {
		did[n+5:].Want(t, "EROFS", "EROFS", "", "", "ENOSPC", "ENOENT", "ENOENT", "ENOENT")
	})
	c.property(t, "environment", func(t *testing.T) {
		for _, one := range []struct {
			tried sandboxtest.Tried
			at    int
		}{{did, n + len(files)}, {checked, n + 9}} {
			var env []string
			one.tried.Into(t, one.at, &env)
			asked := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/.proctor/bin", "HOME=/tmp", "LANG=C.UTF-8"}
			for _, v := range env {
				// The kubelet's own: where the API server is, for which nobody here has credentials.
				kubelet := strings.HasPrefix(v, "KUBERNETES_") || v == "HOSTNAME="+podName
				if !kubelet && !slices.Contains(asked, v) {
					t.Errorf("nobody asked for %s", v)
				}
			}
			for _, v := range asked {
				if !slices.Contains(env, v) {
					t.Errorf("%s is missing in %q", v, env)
				}
			}
		}
	})
	c.property(t, "network", func(t *testing.T) { // shared by the Pod's containers, and not the node's
		var names []string
		if did.Into(t, n+len(files)+1, &names); len(names) != 2 || !slices.Contains(names, "eth0") {
			t.Errorf("the interfaces are %q", names)
		}
	})
	c.property(t, "socket through a read-only bind", func(t *testing.T) {
		if r := did[n+len(files)+2]; r.Err == "ECONNREFUSED" || r.Err == "ENOENT" || r.Err == "EACCES" || r.Err == "EROFS" {
			t.Errorf("the supervisor was not reached: %+v", r)
		}
	})
	c.property(t, "same user outside", func(t *testing.T) {
		// Nobody else is to be seen: the first process cannot be killed from inside.
		if r := checked[n+8]; r.Err != "ESRCH" {
			t.Errorf("killing everybody gave %q", r.Err)
		}
		if err := victim.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the host's process of the same id is gone: %v", err)
		}
	})
	c.property(t, "process", func(t *testing.T) {
		var status struct {
			Argv     []string `json:"argv"`
			Dir      string   `json:"dir"`
			Hostname string   `json:"hostname"`
		}
		checked.Into(t, n+10, &status)
		if want := try(check...); !slices.Equal(status.Argv, want) || status.Dir != "/srv/site" || status.Hostname != podName {
			t.Errorf("%+v, want %q", status, want)
		}
	})
}

// ends are those of checks, each judged by its own.
func (c *conformance) ends(t *testing.T) {
	many := "i=0; while [ $i -lt 1100 ]; do busybox sleep 300 & i=$((i+1)); done; echo started $i"
	e, _ := c.verdict("FAIL", c.render("true", []string{"exit 0", "exit 1", "exit 42", "exit 255", many}, consent))
	reasons := strings.Join(e.Reasons, "\n")
	c.property(t, "exit codes", func(t *testing.T) {
		for _, want := range []string{"check c1 failed: exit 1", "check c2 failed: exit 42", "check c3 failed: exit 255"} {
			if !strings.Contains(reasons, want) {
				t.Errorf("%q says nothing of %s", e.Reasons, want)
			}
		}
		if strings.Contains(reasons, "check c0") {
			t.Errorf("%q", e.Reasons)
		}
	})
	c.property(t, "limits", func(t *testing.T) { // of processes the node's own, for a whole Pod; of memory: TestPodOutOfMemory
		if said := c.Kubectl("", "logs", podName, "-c", "check-c4"); strings.Contains(said, "started 1100") {
			t.Errorf("1100 processes under the node's limit of 1024: %s", said)
		}
	})
	c.property(t, "start failure", func(t *testing.T) {
		c.verdict("INDETERMINATE", c.render("true", []string{`["/no/such/program"]`}, consent))
	})
}
