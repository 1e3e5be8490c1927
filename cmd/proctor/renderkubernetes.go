package main

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox/kubernetes/pod"
)

type podFlags struct {
	policy, product string
	pod             pod.Config
	ownUsers        bool
}

func newRenderKubernetesCommand(a *app) *cobra.Command {
	var f podFlags
	cmd := &cobra.Command{
		Use:   "kubernetes",
		Short: "Write a Kubernetes Pod for a policy",
		Long: `Writes a Pod and a NetworkPolicy to standard output, for kubectl apply. The Pod's session is
observed from inside, and a Pod cannot bound a container's processes: PASS needs
observer: {chain: allow} and allow: [runtime-floor, no-limits] in the policy. See docs/kubernetes.md.`,
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
	l.StringVar(&f.pod.Keep.Ledger, "keep-ledger", "", "a claim for the ledger (default: gone with the Pod)")
	l.StringVar(&f.pod.Keep.Seals, "keep-seals", "", "a claim for seals and their manifests (default: the seal in the log)")
	l.StringVar(&f.pod.Keep.Stage, "keep-stage", "", "a claim for what the agent made (default: gone with the Pod)")
	l.StringVar(&f.pod.RuntimeClass, "runtime-class", "", "the Pod's RuntimeClass (default: the cluster's)")
	l.BoolVar(&f.ownUsers, "user-namespace", false, "ids of the Pod's own (hostUsers: false)")
	return cmd
}

func (a *app) renderKubernetes(f podFlags) error {
	s, err := a.chainOf(f.policy, serveHasNone)
	if err != nil {
		return err
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
	if err := pod.Write(&text, pod.Closed(f.pod), p); err != nil {
		return err
	}
	if a.asJSON {
		a.printJSON(renderedFile{"proctor/render-kubernetes/v1", text.String()})
		return nil
	}
	_, err = a.out.Write([]byte(text.String()))
	return err
}
