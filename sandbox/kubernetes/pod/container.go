package pod

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/proctor-project/proctor/sandbox/chain"
)

// container is one step.
func (c Config) container(s chain.Step) (corev1.Container, error) {
	if s.Network != chain.NoNetwork && c.Network != SharedNetwork {
		return corev1.Container{}, fmt.Errorf("step %s leads outside: a Pod's containers share one network, so the agent would be there too", s.Name)
	}
	id := int64(chain.GuestID) // the stager owns what it copies
	if s.Who == chain.Supervisor {
		id = chain.SupervisorID
	}
	if s.Image == "" {
		s.Image = c.Image
	}
	k := corev1.Container{
		Name: s.Name, Image: s.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: escaped(s.Argv[:1]), Args: escaped(s.Argv[1:]), WorkingDir: "/",
		Stdin: s.Input != chain.NoInput, StdinOnce: s.Input == chain.InputOnce,
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: ptr(id), RunAsGroup: ptr(id), RunAsNonRoot: ptr(true), Privileged: ptr(false),
			AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Resources:                corev1.ResourceRequirements{Limits: limits(s), Requests: requests(s)},
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
	for _, v := range s.Env {
		name, value, ok := strings.Cut(v, "=")
		if !ok {
			return k, fmt.Errorf("step %s: variable %q has no value, and a Pod has no environment to take it from", s.Name, v)
		}
		k.Env = append(k.Env, corev1.EnvVar{Name: name, Value: escape(value)})
	}
	for _, m := range s.Mounts {
		k.VolumeMounts = append(k.VolumeMounts, mount(s, m))
	}
	if s.Temp > 0 {
		k.VolumeMounts = append(k.VolumeMounts, corev1.VolumeMount{Name: temp(s), MountPath: "/tmp"})
	}
	if s.Ready != nil {
		k.RestartPolicy = ptr(corev1.ContainerRestartPolicyAlways)
		k.StartupProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: s.Ready}},
			PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 120, SuccessThreshold: 1,
		}
	}
	return k, nil
}

// mount is one volume. Read-only is so for what is mounted below, too, where the
// node can do that.
func mount(s chain.Step, m chain.Mount) corev1.VolumeMount {
	v := corev1.VolumeMount{Name: m.Volume, MountPath: m.Target}
	if m.How == chain.ReadOnly {
		v.ReadOnly, v.RecursiveReadOnly = true, ptr(corev1.RecursiveReadOnlyIfPossible)
	}
	if m.Volume == chain.Stage && s.Who != chain.Stager {
		v.SubPath = chain.StageDir
	}
	return v
}

// escape keeps Kubernetes from expanding $(NAME).
func escape(s string) string { return strings.ReplaceAll(s, "$", "$$") }

func escaped(all []string) []string {
	out := make([]string, 0, len(all))
	for _, s := range all {
		out = append(out, escape(s))
	}
	return out
}

func limits(s chain.Step) corev1.ResourceList {
	milli := s.Milli
	if milli == 0 {
		milli = 2000
	}
	return corev1.ResourceList{
		corev1.ResourceMemory: *quantity(s.Memory), corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI),
	}
}

// requests are less than limits: a Pod's are the largest of its init containers
// and the sum of those that run together, and most of them run for a second.
func requests(s chain.Step) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceMemory: *quantity(min(s.Memory, 64<<20)), corev1.ResourceCPU: *resource.NewMilliQuantity(50, resource.DecimalSI),
	}
}

func quantity(bytes int64) *resource.Quantity { return resource.NewQuantity(bytes, resource.BinarySI) }
