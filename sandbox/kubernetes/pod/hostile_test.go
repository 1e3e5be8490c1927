//go:build kubernetes

package pod_test

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPodHostile: the hostile agent in a Pod, and what agent and check see of
// key, control and stage.
func TestPodHostile(t *testing.T) {
	s := newSite(t, nil)
	hostile, err := os.ReadFile(filepath.Join(s.dir, "bin", "hostile"))
	s.must(err)
	s.ImportBusybox(map[string][]byte{"/bin/hostile": hostile})
	const look = "cat /proc/self/mountinfo; find / -xdev -name 'epoch-*'; ls /keys /control /seals /handoff; id; "
	s.verdict("FAIL", s.render(look+"touch mine && echo writable; hostile",
		[]string{look + "touch x 2>&1 | grep -q 'Read-only file system' && echo read-only; test -f mine"}, consent))
	agent, check := s.Kubectl("", "logs", podName, "-c", "agent"), s.Kubectl("", "logs", podName, "-c", "check-c0")
	for name, log := range map[string]string{"agent": agent, "check": check} {
		if !strings.Contains(log, "uid=64001") || !strings.Contains(log, "/srv/site") {
			t.Fatalf("%s saw nothing: %s", name, log)
		}
		for _, secret := range []string{"epoch-1", "kubernetes.io~secret", "/keys/", "/control", "serviceaccount", "/seals", "/handoff"} {
			for line := range strings.Lines(log) {
				if strings.Contains(line, secret) && !strings.Contains(line, "No such file") {
					t.Errorf("%s sees %s: %s", name, secret, line)
				}
			}
		}
	}
	if !strings.Contains(agent, "\nwritable") || !strings.Contains(check, "\nread-only") {
		t.Errorf("the stage: agent %s\ncheck %s", agent, check)
	}
	for _, what := range []string{"find the key", "find a secret", "trace the first", "mount a file", "write to the root", "remove the supervisor"} {
		if _, rest, there := strings.Cut(agent, what); !there || strings.Contains(strings.SplitN(rest, "\n", 2)[0], "YES") {
			t.Errorf("the agent did %s: %s", what, agent)
		}
	}
	s.keyIsNowhere()
}

// keyIsNowhere looks for the key's bytes in all that the API server and the node
// have of the Pod; where they are, the same look finds them.
func (s *site) keyIsNowhere() {
	s.Helper()
	key, err := os.ReadFile(filepath.Join(s.dir, "home", "keys", "root", "epoch-1.key"))
	s.must(err)
	forms := []string{string(key), hex.EncodeToString(key), base64.StdEncoding.EncodeToString(key), base64.RawURLEncoding.EncodeToString(key)}
	has := func(text string) bool {
		for _, form := range forms {
			if strings.Contains(text, form) {
				return true
			}
		}
		return false
	}
	if !has(s.Kubectl("", "get", "secret", "proctor-root", "-o", "yaml")) {
		s.Error("the look does not find the key in its Secret")
	}
	all := s.Kubectl("", "get", "pod,events,networkpolicy", "-o", "yaml")
	for _, c := range containers(s.status()) {
		all += s.Kubectl("", "logs", podName, "-c", c.Name)
	}
	if has(all) {
		s.Error("the key is in the Pod's description, its events or a log")
	}
}

// kill ends the task of a container on the node, as nobody in the Pod can.
func (s *site) kill(name string) {
	s.Helper()
	for _, c := range s.status().Status.InitContainerStatuses {
		if c.Name != name {
			continue
		}
		id := strings.TrimPrefix(c.ContainerID, "containerd://")
		out, err := exec.Command("ctr", "--address", filepath.Join(s.Dir, "containerd.sock"), "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id).CombinedOutput()
		if err != nil {
			s.Fatalf("kill %s: %v: %s", name, err, out)
		}
		return
	}
	s.Fatalf("no container %s", name)
}

// TestPodKilled: a container that somebody kills leaves no seal.
func TestPodKilled(t *testing.T) {
	s := newSite(t, nil)
	for _, name := range []string{"agent", "serve"} {
		s.start(s.render("sleep 300", []string{goodCheck}, consent))
		s.Await(func(out string) bool { return out != "" }, "get", "pod", podName, "-o",
			`jsonpath={.status.initContainerStatuses[?(@.name=="agent")].state.running.startedAt}`)
		s.kill(name)
		p := s.ended()
		if p.Status.Phase != corev1.PodFailed || p.Status.ContainerStatuses[0].State.Terminated != nil && p.Status.ContainerStatuses[0].State.Terminated.Message != "" {
			t.Errorf("%s was killed: %s", name, s.told(p))
		}
	}
	s.verdict("PASS", s.render("echo agent > a.txt", []string{goodCheck}, consent))
}

// TestPodOutOfMemory: where the kernel ends a process of an agent's for want of
// memory, the kubelet takes the container as failed, whatever its status: no seal.
func TestPodOutOfMemory(t *testing.T) {
	s := newSite(t, nil)
	file := s.render("busybox tail -c 300000000 /dev/zero; echo went on", []string{goodCheck}, consent)
	short := regexp.MustCompile(`activeDeadlineSeconds: \d+`).ReplaceAllString(file, "activeDeadlineSeconds: 90")
	s.start(short)
	s.Await(func(reason string) bool { return reason == "OOMKilled" }, "get", "pod", podName, "-o",
		`jsonpath={.status.initContainerStatuses[?(@.name=="agent")].state.terminated.reason}`)
	// By now the Pod can only end; the kubelet says so at its deadline.
	p := s.ended()
	if seal := p.Status.ContainerStatuses[0].State.Terminated; p.Status.Phase != corev1.PodFailed || seal != nil && seal.Message != "" {
		t.Errorf("out of memory: %s", s.told(p))
	}
}

// TestPodIsRefused: admission itself refuses a Pod that is weaker, so that what
// runs in these tests is restricted.
func TestPodIsRefused(t *testing.T) {
	s := newSite(t, nil)
	file := s.render("true", []string{goodCheck}, consent)
	weaker := strings.Replace(file, "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", 1)
	if out, err := s.Try(weaker, "apply", "-f", "-"); err == nil || !strings.Contains(out, "restricted") || weaker == file {
		t.Errorf("a weaker Pod: %v: %s", err, out)
	}
}
