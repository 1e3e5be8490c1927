package kubernetes

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ranPod is a Pod all of whose containers ended well.
func ranPod() *corev1.Pod {
	var p corev1.Pod
	done := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, ImageID: "sha256:" + strings.Repeat("ab", 32),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}},
		}
	}
	for _, name := range []string{"stage", "agent", "check-unit"} {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name})
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, done(name))
	}
	p.Spec.Containers = []corev1.Container{{Name: "seal"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{done("seal")}
	return &p
}

// TestFacts: what the API server knows and a session may not pass with.
func TestFacts(t *testing.T) {
	if f := factsOf(ranPod()); len(f.Problems) > 0 || len(f.OOM) > 0 || len(f.Reports) != 4 || f.Reports[1].ImageDigest == "" {
		t.Fatalf("a Pod that ran well: %+v", f) // the positive control
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"restart": {func(p *corev1.Pod) { p.Status.InitContainerStatuses[1].RestartCount = 1 }, "container agent was restarted"},
		"ended before": {func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{}
		}, "container stage was restarted"},
		"attached": {func(p *corev1.Pod) {
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debugger"}}
		}, "container debugger was attached"},
		"nothing is known": {func(p *corev1.Pod) { p.Status.InitContainerStatuses = p.Status.InitContainerStatuses[:2] }, "nothing of container check-unit"},
		"deleted":          {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, "somebody deleted the Pod"},
	} {
		p := ranPod()
		tc.change(p)
		if f := factsOf(p); !slices.ContainsFunc(f.Problems, func(s string) bool { return strings.Contains(s, tc.want) }) {
			t.Errorf("%s: %q", name, f.Problems)
		}
	}
	p := ranPod()
	p.Status.InitContainerStatuses[2].State.Terminated.Reason = "OOMKilled"
	if f := factsOf(p); !slices.Equal(f.OOM, []string{"check-unit"}) {
		t.Errorf("out of memory: %q", f.OOM)
	}
}

// TestOpenBelow: a mount is read-only with what is below it when the node says so,
// and no sooner.
func TestOpenBelow(t *testing.T) {
	mode := func(m corev1.RecursiveReadOnlyMode) *corev1.RecursiveReadOnlyMode { return &m }
	for name, c := range map[string]struct {
		readOnly bool
		status   []corev1.VolumeMountStatus
		open     bool
	}{
		"enabled":  {true, []corev1.VolumeMountStatus{{MountPath: "/p", RecursiveReadOnly: mode(corev1.RecursiveReadOnlyEnabled)}}, false},
		"disabled": {true, []corev1.VolumeMountStatus{{MountPath: "/p", RecursiveReadOnly: mode(corev1.RecursiveReadOnlyDisabled)}}, true},
		"unsaid":   {true, []corev1.VolumeMountStatus{{MountPath: "/p"}}, true},
		"another":  {true, []corev1.VolumeMountStatus{{MountPath: "/q", RecursiveReadOnly: mode(corev1.RecursiveReadOnlyEnabled)}}, true},
		"old node": {true, nil, true},
		"writable": {false, nil, false},
	} {
		p := ranPod()
		p.Spec.InitContainers[1].VolumeMounts = []corev1.VolumeMount{{Name: "stage", MountPath: "/p", ReadOnly: c.readOnly}}
		p.Status.InitContainerStatuses[1].VolumeMounts = c.status
		if got := factsOf(p).Reports[1].Mounts[0]; got.OpenBelow != c.open || got.Writable == c.readOnly {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestStartedAgain: a sidecar that the kubelet starts again and again has ended,
// as it ended the last time.
func TestStartedAgain(t *testing.T) {
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2}}
	s := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: ended}
	if got := stepOf(s); !got.Ended || got.Code != 2 {
		t.Errorf("%+v", got)
	}
	s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	if got := stepOf(s); got.Ended || !got.Running {
		t.Errorf("it runs: %+v", got)
	}
}
