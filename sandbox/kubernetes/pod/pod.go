package pod

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proctor-project/proctor/sandbox/chain"
)

// Labels of everything that a session makes.
const (
	LabelName    = "app.kubernetes.io/name"
	LabelManaged = "app.kubernetes.io/managed-by"
	LabelSession = "proctor.pod" // the Pod's name
)

// Group is the Pod's fsGroup: everybody's there, and nobody's own. It is what
// makes a Secret's file readable to who mounts it.
const Group = 64002

// slack is for the steps that have no time of their own, images included.
const slack = 30 * time.Minute

// New is the session's Pod.
func New(c Config, s chain.Session) (*corev1.Pod, error) {
	if err := c.validate(s); err != nil {
		return nil, err
	}
	s.Place = chain.Pod
	steps, err := s.Steps()
	if err != nil {
		return nil, err
	}
	volumes, err := c.volumes(steps)
	if err != nil {
		return nil, err
	}
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: ptr(c.deadline(steps)),
		AutomountServiceAccountToken: ptr(false), EnableServiceLinks: ptr(false), ShareProcessNamespace: ptr(false),
		TerminationGracePeriodSeconds: ptr(int64(5)), DNSPolicy: corev1.DNSDefault,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr(true), RunAsUser: ptr(int64(chain.GuestID)), RunAsGroup: ptr(int64(chain.GuestID)), FSGroup: ptr(int64(Group)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: volumes,
	}
	if c.Users == OwnUsers {
		spec.HostUsers = ptr(false)
	}
	if c.RuntimeClass != "" {
		spec.RuntimeClassName = ptr(c.RuntimeClass)
	}
	awaited := map[string]bool{}
	for _, step := range steps {
		for _, a := range step.After {
			awaited[a.Step] = true
		}
	}
	for _, step := range steps {
		container, err := c.container(step)
		if err != nil {
			return nil, err
		}
		if awaited[step.Name] {
			spec.InitContainers = append(spec.InitContainers, container)
		} else { // the last ones: they run together
			spec.Containers = append(spec.Containers, container)
		}
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: c.meta(), Spec: spec,
	}, nil
}

// Policy is the NetworkPolicy of the session's Pod, where the cluster's network
// keeps policies at all: nothing in, and nothing out but where doors are. Then
// everything: a policy knows Pods, and not which of their containers it is.
func Policy(c Config, s chain.Session) *networkingv1.NetworkPolicy {
	var out []networkingv1.NetworkPolicyEgressRule
	if s.Doors && c.Network == SharedNetwork {
		out = append(out, networkingv1.NetworkPolicyEgressRule{})
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}, ObjectMeta: c.meta(),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{LabelSession: c.Name}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, Egress: out,
		},
	}
}

func (c Config) meta() metav1.ObjectMeta {
	labels := map[string]string{}
	maps.Copy(labels, c.Labels)
	labels[LabelName], labels[LabelManaged], labels[LabelSession] = "proctor-session", "proctor", c.Name
	return metav1.ObjectMeta{Name: c.Name, Namespace: c.Namespace, Labels: labels}
}

func (c Config) deadline(steps []chain.Step) int64 {
	if c.Deadline > 0 {
		return int64(c.Deadline / time.Second)
	}
	sum := slack
	for _, s := range steps {
		sum += s.Timeout
	}
	return int64(sum / time.Second)
}

func (c Config) volumes(steps []chain.Step) ([]corev1.Volume, error) {
	var all []corev1.Volume
	add := func(name string, source corev1.VolumeSource) {
		all = append(all, corev1.Volume{Name: name, VolumeSource: source})
	}
	kept := map[string]string{chain.Ledger: c.Keep.Ledger, chain.Seals: c.Keep.Seals, chain.Stage: c.Keep.Stage}
	if c.Claim != "" {
		add(chain.Original, claim(c.Claim, true))
	}
	for _, name := range chain.Volumes(steps) {
		switch {
		case name == chain.Root:
			add(name, secret(c.Secret, false))
		case name == chain.Secrets: // serve says which one is missing, and how to give it
			add(name, secret(c.Doors, true))
		case kept[name] != "":
			add(name, claim(kept[name], false))
		default:
			most, known := sizes()[name]
			if !known {
				return nil, fmt.Errorf("volume %q: a Pod has no size for it", name)
			}
			add(name, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: quantity(most)}})
		}
	}
	for _, step := range steps {
		if len(temp(step)) > 63 {
			return nil, fmt.Errorf("step %s: too long, %q is not the name of a volume", step.Name, temp(step))
		}
		if step.Temp > 0 {
			add(temp(step), corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
				Medium: corev1.StorageMediumMemory, SizeLimit: quantity(step.Temp),
			}})
		}
	}
	return slices.Clip(all), nil
}

// sizes are of the volumes of a Pod, in bytes: what is over ends the Pod, and
// nothing is sealed.
func sizes() map[string]int64 {
	const mib = 1 << 20
	return map[string]int64{
		chain.Stage: 16 << 10 * mib, chain.Facts: 4 << 10 * mib, chain.Baseline: 4 << 10 * mib,
		chain.Part: 4 << 10 * mib, chain.Seals: 4 << 10 * mib, chain.Ledger: 1 << 10 * mib, chain.Programs: 64 * mib,
		chain.Sockets: mib, chain.Checks: mib, chain.ReaderDoor: mib, chain.Cache: 9 << 10 * mib,
	}
}

func secret(name string, optional bool) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: ptr(int32(0o440)), Optional: ptr(optional)}}
}

func claim(name string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: readOnly}}
}

func temp(s chain.Step) string { return "tmp-" + s.Name }

func ptr[T any](v T) *T { return &v }
