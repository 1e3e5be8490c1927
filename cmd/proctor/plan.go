package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/launch"
	"github.com/proctor-project/proctor/sidecar/policy"
)

// plan turns the policy and the command line into one session on one engine.
func (a *app) plan(ctx context.Context, opts runOptions, command []string) (launch.Plan, *engine, error) {
	var plan launch.Plan
	if err := opts.check(); err != nil {
		return plan, nil, err
	}
	h, err := a.home()
	if err != nil {
		return plan, nil, err
	}
	product, err := productDir(opts.product)
	if err != nil {
		return plan, nil, &hintError{err, "proctor run --product DIR -- COMMAND"}
	}
	path := opts.policy
	if path == "" {
		path = a.policyPath(h)
	}
	if path, err = filepath.Abs(path); err != nil {
		return plan, nil, err
	}
	if err := a.outside(product, h.Dir(), path); err != nil {
		return plan, nil, err
	}
	data, pol, err := readPolicy(path)
	if err != nil {
		return plan, nil, err
	}
	if opts.engine != "" {
		pol.Agent.Engine = policy.EngineName(opts.engine)
	}
	if opts.runtime != "" {
		pol.Agent.Runtime = policy.RuntimeName(opts.runtime)
	}
	if len(command) == 0 {
		command = pol.Agent.Command
	}
	if len(command) == 0 {
		return plan, nil, &usageError{errors.New("no command: neither here, after --, nor in the policy")}
	}
	e, err := a.openEngine(ctx, h, engineOptions{name: string(pol.Agent.Engine), runtime: string(pol.Agent.Runtime), product: product})
	if err != nil {
		return plan, nil, err
	}
	if err := pol.RefuseSources(policy.Locate, e.places(product, path)); err != nil {
		return plan, nil, errors.Join(err, e.close())
	}
	own, by, err := a.productPolicy(ctx, e, product)
	if err != nil {
		return plan, nil, errors.Join(err, e.close())
	}
	if by != nil {
		pol = pol.Narrow(by)
	}
	plan, err = a.planOf(ctx, pol, e, command)
	if err != nil {
		return plan, nil, errors.Join(err, e.close())
	}
	plan.Product, plan.Policy, plan.PolicyPath, plan.ProductPolicy, plan.User = product, data, path, own, hostUser()
	plan.Waive = waivers(pol, opts.allow)
	plan.Doors = launch.Doors{Bridges: bridges(pol)}
	if _, whole := e.engine.(sandbox.Whole); !whole { // its serve is given a Secret that nobody else reads
		plan.Doors.Request, err = a.doors(pol, path, product)
	}
	if err != nil {
		return plan, nil, errors.Join(err, e.close())
	}
	if err := e.refuse(plan.Waive); err != nil {
		return plan, nil, errors.Join(err, e.close())
	}
	return plan, e, nil
}

// outside refuses keys, control and a policy that lie in a product or in any
// checkout: whoever can write there could prepare them.
func (a *app) outside(product string, paths ...string) error {
	o := safedir.Outside{Home: a.env("HOME")}
	if _, err := os.Stat(o.Home); errors.Is(err, os.ErrNotExist) {
		o.Home = "" // no directory is excepted, then
	}
	if product != "" {
		o.Products = []string{product}
	}
	var errs []error
	for _, p := range paths {
		errs = append(errs, o.Check(p))
	}
	if err := errors.Join(errs...); err != nil {
		return &hintError{err, "move it, or name another place with --home DIR and --policy FILE"}
	}
	return nil
}

func (o runOptions) check() error {
	switch progressMode(o.progress) {
	case progressAuto, progressPlain, progressJSON, progressNone:
	default:
		return &usageError{fmt.Errorf("--progress %q is none of auto, plain, json, none", o.progress)}
	}
	if err := checkWaivers(o.allow); err != nil {
		return err
	}
	if o.engine != "" {
		if err := checkEngine(o.engine); err != nil {
			return err
		}
	}
	switch o.runtime {
	case "", "runc", "runsc":
	default:
		return &usageError{fmt.Errorf("--runtime %q is none of runc, runsc", o.runtime)}
	}
	return nil
}

func checkWaivers(names []string) error {
	for _, name := range names {
		switch sandbox.Waiver(name) {
		case sandbox.WaiveRuntimeFloor, sandbox.WaiveOneIdentity, sandbox.WaiveNoLimits, sandbox.WaiveSharedNetwork:
		default:
			return &usageError{fmt.Errorf("--allow %q is none of runtime-floor, one-identity, no-limits, shared-network", name)}
		}
	}
	return nil
}

func readPolicy(path string) ([]byte, *policy.Policy, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, &hintError{fmt.Errorf("no policy at %s", path), "proctor init"}
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := readAtMost(f, policy.MaxSize)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	pol, err := policy.Parse(path, data)
	return data, pol, err
}

func waivers(pol *policy.Policy, flags []string) []sandbox.Waiver {
	var all []sandbox.Waiver
	seen := map[sandbox.Waiver]bool{}
	for _, w := range pol.Allow {
		flags = append(flags, string(w))
	}
	for _, f := range flags {
		if w := sandbox.Waiver(f); !seen[w] {
			seen[w] = true
			all = append(all, w)
		}
	}
	return all
}

func (a *app) planOf(ctx context.Context, pol *policy.Policy, e *engine, command []string) (launch.Plan, error) {
	agent := pol.Agent
	image, err := e.engine.Resolve(ctx, sandboxImage(agent.Image))
	if err != nil {
		return launch.Plan{}, fmt.Errorf("agent's image: %w", err)
	}
	plan := launch.Plan{
		Exclude: globs(pol.Stage.Exclude), AuditTimeout: pol.Audit.Timeout,
		Limits: launch.TreeLimits{Entries: pol.Audit.MaxEntries, FileBytes: pol.Audit.MaxFileSize, TotalBytes: pol.Audit.MaxTotalSize},
		Agent: launch.Process{
			Image: image, Argv: command, Env: a.agentEnv(pol), Limits: sandboxLimits(agent.Limits),
			Runtime: runtimeName(agent.Runtime), Timeout: agent.Timeout, Grace: agent.Grace, Output: agent.Output,
		},
	}
	for _, m := range agent.Mounts {
		plan.Agent.Mounts = append(plan.Agent.Mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: m.Source, Target: m.Target, Writable: m.Writable})
	}
	for _, c := range pol.Checks {
		image, err := e.engine.Resolve(ctx, sandboxImage(c.Image))
		if err != nil {
			return launch.Plan{}, fmt.Errorf("image of check %s: %w", c.Name, err)
		}
		check := launch.Check{
			Name: c.Name, Expect: c.Expect, Dir: c.Dir,
			Process: launch.Process{
				Image: image, Argv: c.Argv, Env: baseEnv(), Limits: sandboxLimits(c.Limits),
				Runtime: runtimeName(agent.Runtime), Timeout: c.Timeout, Grace: agent.Grace, Output: c.Output,
			},
		}
		for _, f := range c.Files {
			check.Lay = append(check.Lay, launch.Lay{From: f.From, To: f.To})
		}
		plan.Checks = append(plan.Checks, check)
	}
	return plan, nil
}

// baseEnv is the environment of every agent and check; nothing of the
// launcher's own reaches them but what the policy names.
func baseEnv() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/.proctor/bin", "HOME=/tmp", "LANG=C.UTF-8"}
}

func (a *app) agentEnv(pol *policy.Policy) []string {
	agent := pol.Agent
	set := map[string]string{}
	var order []string
	put := func(name, value string) {
		if _, ok := set[name]; !ok {
			order = append(order, name)
		}
		set[name] = value
	}
	put("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/.proctor/bin")
	put("HOME", "/tmp")
	put("LANG", "C.UTF-8")
	for _, name := range agent.EnvPass {
		if v := a.env(name); v != "" {
			put(name, v)
		}
	}
	for _, v := range doorEnv(pol) {
		put(v.Name, v.Value)
	}
	for _, v := range agent.Env {
		put(v.Name, v.Value)
	}
	env := make([]string, 0, len(order))
	for _, name := range order {
		env = append(env, name+"="+set[name])
	}
	return env
}

func sandboxImage(i policy.Image) sandbox.Image {
	return sandbox.Image{Kind: sandbox.ImageKind(i.Kind), Ref: i.Ref}
}

func sandboxLimits(l policy.Limits) sandbox.Limits {
	return sandbox.Limits{Memory: l.Memory, PIDs: l.PIDs, MilliCPUs: l.MilliCPUs, OpenFiles: l.OpenFiles}
}

func runtimeName(r policy.RuntimeName) string {
	if r == policy.RuntimeRunc {
		return ""
	}
	return string(r)
}

func globs(all []policy.Glob) []string {
	text := make([]string, 0, len(all))
	for _, g := range all {
		text = append(text, g.String())
	}
	return text
}
