package kubernetes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/proctor-project/proctor/sandbox"
)

const oomKilled = "OOMKilled"

// statuses are those of the session's containers, in its order.
func statuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

func progressOf(pod *corev1.Pod) sandbox.Progress {
	p := sandbox.Progress{Ended: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil}
	have := map[string]corev1.ContainerStatus{}
	for _, s := range statuses(pod) {
		have[s.Name] = s
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		state := stepOf(have[c.Name])
		state.Name = c.Name
		p.Steps = append(p.Steps, state)
		if w := have[c.Name].State.Waiting; w != nil && stuck(w.Reason) {
			p.Stuck, p.Broken = fmt.Sprintf("%s: %s: %s", c.Name, w.Reason, w.Message), true
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			p.Stuck = fmt.Sprintf("%s: %s", c.Reason, c.Message)
		}
	}
	if pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" { // DeadlineExceeded, Evicted
		p.Stuck = strings.TrimSuffix(pod.Status.Reason+": "+pod.Status.Message, ": ")
	}
	return p
}

func stepOf(s corev1.ContainerStatus) sandbox.StepState {
	state := sandbox.StepState{Running: s.State.Running != nil, Ready: s.Started != nil && *s.Started}
	t := s.State.Terminated
	if w := s.State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" { // serve, which is started again, and again
		t = s.LastTerminationState.Terminated
	}
	switch {
	case t != nil:
		state.Ended, state.Code, state.Reason = true, int(t.ExitCode), t.Reason
		state.Started, state.Finished = t.StartedAt.Time, t.FinishedAt.Time
	case s.State.Running != nil:
		state.Started = s.State.Running.StartedAt.Time
	}
	return state
}

// stuck are the reasons of a container that waits for what will not come.
func stuck(reason string) bool {
	switch reason {
	case "ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return true
	}
	return false
}

// factsOf are what the kubelet told the API server of the Pod's containers.
func factsOf(pod *corev1.Pod) sandbox.Facts {
	var f sandbox.Facts
	note := func(format string, args ...any) { f.Problems = append(f.Problems, fmt.Sprintf(format, args...)) }
	if pod.DeletionTimestamp != nil {
		note("somebody deleted the Pod")
	}
	for _, s := range pod.Status.EphemeralContainerStatuses {
		note("container %s was attached to the Pod while it ran", s.Name)
	}
	have := map[string]corev1.ContainerStatus{}
	for _, s := range statuses(pod) {
		have[s.Name] = s
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		s, ok := have[c.Name]
		if !ok {
			note("the kubelet says nothing of container %s", c.Name)
			continue
		}
		if s.RestartCount > 0 || s.LastTerminationState.Terminated != nil {
			note("container %s was restarted", c.Name)
		}
		if killed(s.State.Terminated) || killed(s.LastTerminationState.Terminated) {
			f.OOM = append(f.OOM, c.Name)
		}
		f.Reports = append(f.Reports, reportOf(pod, &c, s))
	}
	return f
}

func killed(t *corev1.ContainerStateTerminated) bool { return t != nil && t.Reason == oomKilled }

// reportOf is a container as the API server has it, and the image that the
// kubelet says it ran.
func reportOf(pod *corev1.Pod, c *corev1.Container, s corev1.ContainerStatus) sandbox.Report {
	r := sandbox.Report{
		Name: pod.Name + "/" + c.Name, Role: roleOf(c.Name), ImageDigest: digestOf(s.ImageID),
		Namespaces: []string{"pid", "mnt"}, Seccomp: confined(pod, c),
		Limits: sandbox.Limits{Memory: c.Resources.Limits.Memory().Value(), MilliCPUs: c.Resources.Limits.Cpu().MilliValue()},
	}
	if pod.Spec.RuntimeClassName != nil {
		r.Runtime = *pod.Spec.RuntimeClassName
	}
	if sc := c.SecurityContext; sc != nil {
		if sc.RunAsUser != nil {
			r.HostUID = uint32(*sc.RunAsUser)
		}
		if sc.RunAsGroup != nil {
			r.HostGID = uint32(*sc.RunAsGroup)
		}
		r.NoNewPrivs = sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation
		r.ReadOnlyRoot = sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem
		if sc.Capabilities != nil {
			for _, add := range sc.Capabilities.Add {
				r.Capabilities = append(r.Capabilities, string(add))
			}
		}
	}
	for _, m := range c.VolumeMounts {
		r.Mounts = append(r.Mounts, sandbox.MountReport{
			Kind: sandbox.MountVolume, Source: m.Name, Target: m.MountPath, Writable: !m.ReadOnly, OpenBelow: m.ReadOnly && !closedBelow(s, m.MountPath),
		})
	}
	return r
}

// closedBelow reports whether the node made a mount read-only with all that is
// below it, which was asked for where it can.
func closedBelow(s corev1.ContainerStatus, path string) bool {
	for _, m := range s.VolumeMounts {
		if m.MountPath == path {
			return m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled
		}
	}
	return false
}

// confined says that the runtime's seccomp filter was asked for.
func confined(pod *corev1.Pod, c *corev1.Container) bool {
	var p *corev1.SeccompProfile
	if sc := pod.Spec.SecurityContext; sc != nil {
		p = sc.SeccompProfile
	}
	if sc := c.SecurityContext; sc != nil && sc.SeccompProfile != nil {
		p = sc.SeccompProfile
	}
	return p != nil && p.Type == corev1.SeccompProfileTypeRuntimeDefault
}

func roleOf(name string) sandbox.Role {
	if strings.HasPrefix(name, "check-") {
		return sandbox.RoleCheck
	}
	return sandbox.Role(name)
}

// digestOf finds the digest in the kubelet's name of an image.
func digestOf(imageID string) string {
	if i := strings.LastIndex(imageID, "sha256:"); i >= 0 && len(imageID) == i+len("sha256:")+64 {
		return imageID[i:]
	}
	return ""
}
