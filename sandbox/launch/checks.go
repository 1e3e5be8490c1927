package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/inside"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// layerSize bounds what one check can write.
const layerSize = 512 << 20

const layTarget = "/.proctor/lay"

// runChecks runs every check over the stage, one fresh container each, after
// the reader has said what the tree is before them.
func (s *session) runChecks(ctx context.Context) error {
	if len(s.plan.Checks) == 0 || len(s.quiet) > 0 {
		return nil
	}
	s.progress.Begin("check", "")
	if err := s.host.SetPhase("check"); err != nil {
		return err
	}
	tree, err := s.readDigest(ctx)
	if err != nil {
		// Not an end: seal is told, and nothing passes.
		s.problems = append(s.problems, "the product could not be read before the checks: "+err.Error())
		return nil //nolint:nilerr // see above
	}
	s.before = tree.Tree
	for i := range s.plan.Checks {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.progress.Live(s.plan.Checks[i].Name)
		s.checks = append(s.checks, s.runCheck(ctx, i, tree.RootEntries))
	}
	s.progress.End("check", checksText(s.checks))
	return s.checkQuiet(ctx)
}

func checksText(checks []wire.Process) string {
	text := ""
	for i, c := range checks {
		if i > 0 {
			text += "; "
		}
		text += c.Name + ": " + c.Outcome
		if c.Outcome == "exited" {
			text = fmt.Sprintf("%s%s: exit %d", text[:len(text)-len(c.Name+": "+c.Outcome)], c.Name, c.Exit)
		}
	}
	return text
}

// readDigest lets the reader walk the stage for its digest alone.
func (s *session) readDigest(ctx context.Context) (wire.ReadDigest, error) {
	ctx, cancel := context.WithTimeout(ctx, s.plan.AuditTimeout)
	defer cancel()
	var tree wire.ReadDigest
	var out bytes.Buffer
	spec := s.readSpec("before", []string{"--digest"})
	report, err := s.l.runStep(ctx, spec, nil, limited{&out, wire.MaxLine})
	if err != nil {
		return tree, err
	}
	s.reports = append(s.reports, report)
	answer := &stepAnswer{}
	if _, err := answer.Write(out.Bytes()); err != nil {
		return tree, err
	}
	return tree, answer.read(&tree)
}

func (s *session) readSpec(name string, more []string) sandbox.Spec {
	argv := append(append([]string{"read"}, more...), s.plan.Limits.args()...)
	argv = append(argv, "--", s.plan.Product)
	spec := s.l.spec(s.host.ID, sandbox.RoleRead, argv,
		sandbox.Mount{Kind: sandbox.MountBind, Source: s.host.Stage(), Target: s.plan.Product, NoExec: s.l.cfg.Info.MountFlags})
	spec.Identity = s.l.identity(sandbox.RoleRead, s.block.First)
	spec.Name += "-" + name
	return spec
}

func (s *session) runCheck(ctx context.Context, n, entries int) wire.Process {
	c := s.plan.Checks[n]
	proc := wire.Process{Name: c.Name, Argv: c.Argv, Image: c.Image.Digest, Expect: c.Expect, Reported: "engine"}
	spec, err := s.checkSpec(n, entries)
	if err != nil {
		proc.Outcome, proc.Detail = "start-failed", err.Error()
		return proc
	}
	stdin, fed, err := lifeline()
	if err != nil {
		proc.Outcome, proc.Detail = "start-failed", err.Error()
		return proc
	}
	defer fed()
	out := newOutput(c.Output, s.plan.CheckOutput)
	container, err := s.l.cfg.Engine.Create(ctx, spec, sandbox.Streams{Stdin: stdin, Stdout: out, Stderr: out})
	if err != nil {
		proc.Outcome, proc.Detail = "start-failed", err.Error()
		return proc
	}
	s.reports = append(s.reports, container.Report())
	err = s.await(ctx, container, c.Process, &proc, nil, out.overflow)
	out.describe(&proc)
	if proc.Outcome == "exited" && proc.Bytes > c.Output {
		proc.Outcome = "overflow"
	}
	if proc.Outcome == "exited" && (proc.Exit == inside.ExitCannotRun || proc.Exit == inside.ExitNotFound) {
		proc.Outcome = "start-failed"
	}
	if err != nil {
		proc.Outcome, proc.Detail = "lost", errors.Join(err, errors.New(proc.Detail)).Error()
	}
	return proc
}

func (s *session) checkSpec(n, entries int) (sandbox.Spec, error) {
	c := s.plan.Checks[n]
	more := []string{"--lifeline"}
	var mounts []sandbox.Mount
	if len(c.Lay) > 0 {
		mounts = append(mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: s.layDir(n), Target: layTarget, NoExec: s.l.cfg.Info.MountFlags})
		for i, lay := range c.Lay {
			arg := fmt.Sprintf("%s/%d=%s=%s", layTarget, i, s.plan.Product, lay.To)
			if _, err := inside.ParseLay([]string{arg}); err != nil {
				return sandbox.Spec{}, err
			}
			more = append(more, "--lay", arg)
		}
	}
	mounts = append(mounts, sandbox.Mount{
		Kind: sandbox.MountLayer, Source: s.host.Stage(), Target: s.plan.Product, Writable: true, Size: layerSize,
	})
	argv := initArgv(s.plan.Product, path.Join(s.plan.Product, c.Dir), entries, more...)
	return s.processSpec(sandbox.RoleCheck, fmt.Sprintf("proctor-%s-check-%d", s.host.ID, n), c.Process, argv, mounts...), nil
}
