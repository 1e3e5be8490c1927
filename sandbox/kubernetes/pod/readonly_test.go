//go:build kubernetes

package pod_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPodReadOnly: the node says that read-only mounts are so with what is below
// them, and what somebody mounts on the node below a volume of a check cannot be
// written in it. Where that was not asked for, it can be.
func TestPodReadOnly(t *testing.T) {
	s := newSite(t, nil)
	s.verdict("PASS", s.render("true", []string{goodCheck}, consent))
	p := s.status()
	for i, status := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		for _, asked := range containers(p)[i].VolumeMounts {
			for _, made := range status.VolumeMounts {
				if asked.MountPath != made.MountPath || !asked.ReadOnly {
					continue
				}
				if made.RecursiveReadOnly == nil || *made.RecursiveReadOnly != corev1.RecursiveReadOnlyEnabled {
					t.Errorf("%s: %s is %v on a node that can do more", status.Name, made.MountPath, made.RecursiveReadOnly)
				}
			}
		}
	}
	if said := s.below("IfPossible"); !strings.Contains(said, "Read-only file system") || strings.Contains(said, "written") {
		t.Errorf("below a read-only mount: %s", said)
	}
	if said := s.below("Disabled"); !strings.Contains(said, "written") {
		t.Errorf("nothing was tried: %s", said)
	}
}

// below mounts something below the directory of the checks' sockets, on the node,
// while a check runs, and returns what the next one made of it. (Of the stage a
// container has a subpath, which the kubelet binds without what is below.)
func (s *site) below(mode string) string {
	s.Helper()
	file := s.render("true", []string{
		"while ! test -e /run/checks/go; do sleep 1; done",
		"grep /run/checks/below /proc/self/mountinfo || echo nothing is mounted; touch /run/checks/below/x && echo written",
	}, consent)
	s.start(strings.ReplaceAll(file, "recursiveReadOnly: IfPossible", "recursiveReadOnly: "+mode))
	running := func(check, state string) {
		s.Await(func(out string) bool { return out != "" }, "get", "pod", podName, "-o",
			`jsonpath={.status.initContainerStatuses[?(@.name=="`+check+`")].state.`+state+`}`)
	}
	running("check-c0", "running.startedAt")
	volume := filepath.Join(s.Dir, "kubelet", "pods", string(s.status().UID), "volumes", "kubernetes.io~empty-dir", "checks")
	pid, err := os.ReadFile(filepath.Join(s.Dir, "pid"))
	s.must(err)
	node := func(args ...string) {
		s.Helper()
		out, err := exec.Command("nsenter", append([]string{"-t", strings.TrimSpace(string(pid)), "-m", "--"}, args...)...).CombinedOutput()
		if err != nil {
			s.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	below := filepath.Join(volume, "below")
	s.must(os.Mkdir(below, 0o755))
	node("mount", "-t", "tmpfs", "-o", "mode=0777", "proctor-below", below)
	s.must(os.WriteFile(filepath.Join(volume, "go"), nil, 0o644))
	running("check-c1", "terminated.reason")
	said := s.Kubectl("", "logs", podName, "-c", "check-c1")
	node("umount", below)
	if strings.Contains(said, "nothing is mounted") {
		s.Errorf("the check did not see what was mounted: %s", said)
	}
	return said
}
