package main

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/kubernetes/pod"
)

type podFlags struct {
	policy, product string
	pod             pod.Config
	ownUsers        bool
	allow           []string
}

func newRenderKubernetesCommand(a *app) *cobra.Command {
	var f podFlags
	cmd := &cobra.Command{
		Use:   "kubernetes",
		Short: "Write a Kubernetes Pod for a policy",
		Long: `Writes a Pod and a NetworkPolicy to standard output, for kubectl apply. The Pod's session is
observed from inside, and a Pod cannot bound a container's processes: PASS needs
observer: {chain: allow} and allow: [runtime-floor, no-limits] in the policy. A policy with doors
(packages, egress, services) needs shared-network as well: a Pod's containers share its network, and
the agent is there, too. See docs/kubernetes.md.`,
		Example: `  proctor render kubernetes --policy deploy/kubernetes/base/policy.yaml --product /srv/site --claim site > pod.yaml
  proctor render kubernetes --product /srv/site --claim site --keep-seals seals | kubectl apply -f -`,
		Annotations: schema("proctor/render-kubernetes/v1"),
		Args:        cobra.NoArgs,
		RunE:        func(*cobra.Command, []string) error { return a.renderKubernetes(f) },
	}
	l := cmd.Flags()
	l.StringVar(&f.policy, "policy", "", "policy file (default: the operator's)")
	l.StringVar(&f.product, "product", "", "the absolute path that the product has in every container")
	l.StringVar(&f.pod.Claim, "claim", "", "the PersistentVolumeClaim that holds the product")
	l.StringVar(&f.pod.Name, "name", "proctor-session", "name of Pod and NetworkPolicy")
	l.StringVar(&f.pod.Namespace, "namespace", "", "their namespace (default: kubectl's)")
	l.StringVar(&f.pod.Image, "image", imageName, "Proctor's own image, as the nodes know it")
	l.StringVar(&f.pod.Secret, "secret", "proctor-root", "the Secret with the root key")
	l.StringVar(&f.pod.Doors, "doors-secret", "proctor-doors", "the Secret with what serve's doors need: service-NAME, and roots.pem")
	l.StringArrayVar(&f.allow, "allow", nil, "do without NAME, beside what the policy names: runtime-floor, no-limits, shared-network")
	l.StringVar(&f.pod.Keep.Ledger, "keep-ledger", "", "a claim for the ledger (default: gone with the Pod)")
	l.StringVar(&f.pod.Keep.Seals, "keep-seals", "", "a claim for seals and their manifests (default: the seal in the log)")
	l.StringVar(&f.pod.Keep.Stage, "keep-stage", "", "a claim for what the agent made (default: gone with the Pod)")
	l.StringVar(&f.pod.RuntimeClass, "runtime-class", "", "the Pod's RuntimeClass (default: the cluster's)")
	l.BoolVar(&f.ownUsers, "user-namespace", false, "ids of the Pod's own (hostUsers: false)")
	return cmd
}

func (a *app) renderKubernetes(f podFlags) error {
	if err := checkWaivers(f.allow); err != nil {
		return err
	}
	s, pol, err := a.chainOf(f.policy)
	if err != nil {
		return err
	}
	s.Waive = f.allow
	if slices.Contains(waivers(pol, f.allow), sandbox.WaiveSharedNetwork) {
		f.pod.Network = pod.SharedNetwork
	}
	if s.Doors && f.pod.Network != pod.SharedNetwork {
		return sandbox.NoSharedNetwork()
	}
	if !filepath.IsAbs(f.product) || filepath.Clean(f.product) != f.product || f.product == "/" {
		return &usageError{errors.New("--product is not the absolute path of a product")}
	}
	s.Product = f.product
	if f.ownUsers {
		f.pod.Users = pod.OwnUsers
	}
	p, err := pod.New(f.pod, s)
	if err != nil {
		return &usageError{err}
	}
	var text strings.Builder
	text.WriteString("# Written by proctor render kubernetes: change the policy, not this file.\n")
	if s.Doors {
		text.WriteString("# shared-network is waived: what serve reaches for its doors, the agent reaches past them.\n")
	}
	if err := pod.Write(&text, pod.Policy(f.pod, s), p); err != nil {
		return err
	}
	if a.asJSON {
		a.printJSON(renderedFile{"proctor/render-kubernetes/v1", text.String()})
		return nil
	}
	_, err = a.out.Write([]byte(text.String()))
	return err
}
