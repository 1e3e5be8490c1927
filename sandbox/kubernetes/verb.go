package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/chain"
	"github.com/proctor-project/proctor/sandbox/kubernetes/pod"
)

// verbContainer is the only container of a verb's Pod.
const verbContainer = "verb"

// verbDeadline bounds the Pod of a verb whose launcher is gone, in seconds.
const verbDeadline = 300

// Create implements sandbox.Engine for the operator's verbs: a Pod of one
// container, with the parts that the verb needs. Agents, checks and the steps of
// a session are Submit's.
func (c *Client) Create(_ context.Context, spec sandbox.Spec, streams sandbox.Streams) (sandbox.Container, error) {
	if spec.Role != sandbox.RoleVerb {
		return nil, &sandbox.RefusedError{Container: spec.Name, Problems: []string{"a container of its own cannot be had from Kubernetes for the role " + string(spec.Role)}}
	}
	made, err := c.verbPod(spec)
	if err != nil {
		return nil, err
	}
	made.Spec.Containers[0].Stdin, made.Spec.Containers[0].StdinOnce = streams.Stdin != nil, streams.Stdin != nil
	return &verb{c: c, spec: spec, streams: streams, pod: made}, nil
}

func (c *Client) verbPod(spec sandbox.Spec) (*corev1.Pod, error) {
	yes, no, id, group, seconds := true, false, int64(chain.SupervisorID), int64(pod.Group), int64(verbDeadline)
	container := corev1.Container{
		Name: verbContainer, Image: c.cfg.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: spec.Argv[:1], Args: append(slices.Clone(spec.Argv[1:]), "--in-pod"), WorkingDir: "/",
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: &id, RunAsGroup: &id, RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Resources: corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourceCPU: resource.MustParse("2")},
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi"), corev1.ResourceCPU: resource.MustParse("10m")},
		},
	}
	var volumes []corev1.Volume
	for _, m := range spec.Mounts {
		source, err := partSource(m)
		if err != nil {
			return nil, err
		}
		volumes = append(volumes, corev1.Volume{Name: m.Source, VolumeSource: source})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: m.Source, MountPath: m.Target, ReadOnly: !m.Writable})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: spec.Name, Labels: map[string]string{
			pod.LabelName: "proctor-verb", pod.LabelManaged: "proctor", labelSession: spec.Session,
		}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: &seconds, Volumes: volumes,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no, ShareProcessNamespace: &no, DNSPolicy: corev1.DNSDefault,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, FSGroup: &group,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{container},
		},
	}, nil
}

// partSource is the volume of one part. Keys are Secrets that nothing in a Pod
// can write; init, which would, leaves the ledger's in a volume that ends with it.
func partSource(m sandbox.Mount) (corev1.VolumeSource, error) {
	mode, no := int32(0o440), false
	secret := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: &mode, Optional: &no}}
	}
	switch part := sandbox.Part(m.Source); {
	case part == sandbox.PartRootKeys && !m.Writable:
		return secret(SecretRoot), nil
	case part == sandbox.PartLedgerKeys && !m.Writable:
		return secret(SecretLedger), nil
	case part == sandbox.PartLedgerKeys:
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, nil
	case part == sandbox.PartLedger:
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: ClaimLedger}}, nil
	}
	return corev1.VolumeSource{}, &sandbox.RefusedError{
		Container: "of the verb", Problems: []string{fmt.Sprintf("part %s cannot be had here: a session's own ends with its Pod, and a Secret is not written from inside", m.Source)},
	}
}

// verb is a Pod of one container.
type verb struct {
	c       *Client
	spec    sandbox.Spec
	streams sandbox.Streams
	pod     *corev1.Pod
	made    *following

	once sync.Once
	exit sandbox.Exit
	err  error
}

// Name implements sandbox.Container, as do the others.
func (v *verb) Name() string { return v.spec.Name }

func (v *verb) Report() sandbox.Report {
	return sandbox.Report{Name: v.spec.Name, Role: v.spec.Role}
}

func (v *verb) Start(ctx context.Context) error {
	var err error
	v.made, err = v.c.create(ctx, v.pod)
	return err
}

func (v *verb) Wait(ctx context.Context) (sandbox.Exit, error) {
	v.once.Do(func() { v.exit, v.err = v.wait(ctx) })
	return v.exit, v.err
}

func (v *verb) wait(ctx context.Context) (sandbox.Exit, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var last sandbox.Progress
	var attached chan error
	for p := range v.made.Updates(ctx) {
		last = p
		if p.Broken {
			return sandbox.Exit{}, &sandbox.UnavailableError{Engine: Name, Reason: p.Stuck, Remedy: "kubectl describe pod " + v.spec.Name}
		}
		if p.Step(verbContainer).Running && attached == nil && v.streams.Stdin != nil {
			attached = make(chan error, 1)
			go v.c.cfg.Crash.Guard(func() { attached <- v.made.Feed(ctx, verbContainer, v.streams.Stdin, nil) })()
		}
	}
	state := last.Step(verbContainer)
	if !state.Ended {
		return sandbox.Exit{}, errors.Join(fmt.Errorf("pod %s ended without its verb", v.spec.Name), v.made.Err())
	}
	// What it printed is its answer, or, where it did not end well, its refusal. It
	// may have ended before anybody could have attached to hear it.
	out := v.streams.Stdout
	if state.Code != 0 {
		out = v.streams.Stderr
	}
	if out != nil {
		if err := v.made.Output(ctx, verbContainer, out); err != nil {
			return sandbox.Exit{}, err
		}
	}
	return sandbox.Exit{Code: state.Code, OOM: state.Reason == oomKilled, Started: state.Started, Finished: state.Finished}, nil
}

func (v *verb) Stop(ctx context.Context) error { return v.Remove(ctx) }

func (v *verb) Kill(ctx context.Context) error { return v.Remove(ctx) }

func (v *verb) Remove(ctx context.Context) error {
	if v.made == nil {
		return nil
	}
	return v.made.Remove(ctx)
}
