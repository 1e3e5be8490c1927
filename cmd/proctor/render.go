package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox/chain"
	"github.com/proctor-project/proctor/sandbox/compose"
	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/steps"
)

func newRenderCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Write what runs a session without this launcher",
	}
	var opts renderComposeOptions
	stack := &cobra.Command{
		Use:   "compose",
		Short: "Write a docker compose file for a policy",
		Long: `Writes the file to standard output. Its session is observed from inside: PASS needs
observer: {chain: allow} and allow: [runtime-floor] in the policy. With --over it is an
override: what makes the stack of another policy this one's. See docs/compose.md.`,
		Example: `  proctor render compose --policy compose/policy.yaml > compose.yaml
  proctor render compose --product /srv/site > compose.yaml
  proctor render compose --policy compose/coding-agent.policy.yaml --over compose/policy.yaml > coding-agent.yaml`,
		Annotations: schema("proctor/render-compose/v1"),
		Args:        cobra.NoArgs,
		RunE:        func(*cobra.Command, []string) error { return a.renderCompose(opts) },
	}
	stack.Flags().StringVar(&opts.policy, "policy", "", "policy file (default: the operator's)")
	stack.Flags().StringVar(&opts.product, "product", "", "the product's directory (default: what $PROCTOR_PRODUCT names when the stack runs)")
	stack.Flags().StringVar(&opts.over, "over", "", "policy file whose stack is there: write only what differs from it")
	files := false
	image := &cobra.Command{
		Use:   "image",
		Short: "Write the image of supervisor and agent as an archive",
		Long: `Writes an OCI layout, which docker load reads as well, to standard output. The same programs
make the same bytes: nothing is pulled or built, and no time is in it. With --json only the
image's name and id are written, with --files only its files, as a tar file for a Dockerfile.`,
		Example:     "  proctor render image > proctor-image.tar\n  proctor render image --json",
		Annotations: schema("proctor/render-image/v1"),
		Args:        cobra.NoArgs,
		RunE:        func(*cobra.Command, []string) error { return a.renderImage(files) },
	}
	image.Flags().BoolVar(&files, "files", false, "write the image's files alone, with their owners and modes")
	cmd.AddCommand(stack, newRenderKubernetesCommand(a), image)
	return cmd
}

// renderComposeOptions are the flags of render compose.
type renderComposeOptions struct{ policy, product, over string }

func (a *app) renderCompose(opts renderComposeOptions) error {
	s, err := a.composeOf(opts.policy, opts.product)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return compose.Write(w, s) }
	if opts.over != "" {
		base, err := a.composeOf(opts.over, opts.product)
		if err != nil {
			return err
		}
		write = func(w io.Writer) error { return compose.WriteOver(w, base, s) }
	}
	var text strings.Builder
	if err := write(&text); err != nil {
		return &usageError{err}
	}
	if a.asJSON {
		a.printJSON(renderedFile{"proctor/render-compose/v1", text.String()})
		return nil
	}
	_, err = io.WriteString(a.out, text.String())
	return err
}

func (a *app) composeOf(policy, product string) (chain.Session, error) {
	s, _, err := a.chainOf(policy)
	if err != nil {
		return s, err
	}
	s.Remedies = "docker compose run --rm --no-deps -T"
	if product != "" {
		s.Product, err = productDir(product)
	}
	return s, err
}

// chainOf is the policy of a file, "" being the operator's, as a chain.
func (a *app) chainOf(path string) (chain.Session, *policy.Policy, error) {
	if path == "" {
		h, err := a.home()
		if err != nil {
			return chain.Session{}, nil, err
		}
		path = a.policyPath(h)
	}
	data, pol, err := readPolicy(path)
	if err != nil {
		return chain.Session{}, nil, err
	}
	s, err := stackOf(pol)
	if err != nil {
		return chain.Session{}, nil, &usageError{err}
	}
	s.Policy = data
	return s, pol, nil
}

type renderedFile struct {
	Schema string `json:"schema"`
	File   string `json:"file"`
}

// stackOf refuses what a stack cannot give.
func stackOf(pol *policy.Policy) (chain.Session, error) {
	var s chain.Session
	errs := []error{steps.ChainCan(pol, true)}
	if len(pol.Agent.Command) == 0 {
		errs = append(errs, errors.New("the policy names no command for the agent"))
	}
	var err error
	agent := pol.Agent
	if s.Agent, err = stackProcess(agent.Image, agent.Limits, agent.Runtime); err != nil {
		errs = append(errs, fmt.Errorf("agent: %w", err))
	}
	s.Agent.Argv, s.Agent.Output, s.Agent.Timeout, s.Agent.Grace = agent.Command, agent.Output, agent.Timeout, agent.Grace
	if pol.Packages.Registry != "" {
		if s.Registry, err = packages.Origin(pol.Packages.Registry); err != nil {
			errs = append(errs, fmt.Errorf("packages.registry: %w", err))
		}
	}
	s.Doors = steps.HasDoors(pol)
	for _, b := range bridges(pol) {
		s.Bridges = append(s.Bridges, fmt.Sprintf("%d=%s", b.Port, b.Socket))
	}
	s.Agent.Env = append(s.Agent.Env, agent.EnvPass...)
	for _, v := range doorEnv(pol) {
		s.Agent.Env = append(s.Agent.Env, v.Name+"="+v.Value)
	}
	for _, v := range agent.Env {
		s.Agent.Env = append(s.Agent.Env, v.Name+"="+v.Value)
	}
	for _, c := range pol.Checks {
		check := chain.Check{Name: c.Name, Dir: c.Dir}
		if check.Process, err = stackProcess(c.Image, c.Limits, agent.Runtime); err != nil {
			errs = append(errs, fmt.Errorf("check %s: %w", c.Name, err))
		}
		check.Argv, check.Output, check.Timeout, check.Grace = c.Argv, c.Output, c.Timeout, 10*time.Second
		s.Checks = append(s.Checks, check)
	}
	s.Exclude, s.Walk = globs(pol.Stage.Exclude), pol.Audit.Timeout
	s.Limits = []string{
		fmt.Sprintf("--max-entries=%d", pol.Audit.MaxEntries), fmt.Sprintf("--max-file-size=%d", pol.Audit.MaxFileSize),
		fmt.Sprintf("--max-total-size=%d", pol.Audit.MaxTotalSize),
	}
	return s, errors.Join(errs...)
}

// stackTemp is /tmp of an agent and of a check, in bytes.
const stackTemp = 256 << 20

func stackProcess(img policy.Image, l policy.Limits, r policy.RuntimeName) (chain.Process, error) {
	p := chain.Process{
		Image: img.Ref, Env: baseEnv(), Runtime: runtimeName(r),
		Limits: chain.Limits{Memory: l.Memory, PIDs: l.PIDs, Milli: l.MilliCPUs, Files: l.OpenFiles, Temp: stackTemp},
	}
	if img.Kind != policy.ImageRef {
		return p, fmt.Errorf("an image of kind %s cannot be in a stack: name one that docker holds", img.Kind)
	}
	return p, nil
}
