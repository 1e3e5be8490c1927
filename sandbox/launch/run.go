package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// session is one run of Plan through the steps; each method is one step.
type session struct {
	l        *Launcher
	plan     Plan
	progress Progress
	host     *home.Session
	block    Block

	opened   wire.OpenReply
	anchor   *wire.Anchor
	serve    *server
	agent    *wire.Process
	checks   []wire.Process
	before   string // tree digest before the checks
	reports  []sandbox.Report
	problems []string
	quiet    []string
	record   *wire.RecordHead
	request  wire.SealRequest // what the seal step is told
	pending  []*ahead
	opener   *ahead // the open step's container, made while the product is copied
	openIn   *input // its standard input
	openOut  *stepAnswer
	openErr  *tail
	doors    doorsSeen  // what serve tells of its doors
	server   *preparing // serve's, made while open runs
	judges   *judges    // the reader's and seal's, made while serve closes its record, or later
}

// Run takes one session from stage to seal. An error means that nothing was
// sealed; a *StepError or *sandbox.RefusedError from stage or open means that
// nothing was started. The session's lock is held until it returns.
func (l *Launcher) Run(ctx context.Context, plan Plan, progress Progress) (Result, error) {
	if err := errors.Join(plan.validate(), validProduct(plan.Product)); err != nil {
		return Result{}, err
	}
	if err := l.PrepareTools(); err != nil {
		return Result{}, err
	}
	if _, err := l.Clean(ctx); err != nil {
		return Result{}, err
	}
	host, err := l.cfg.Home.NewSession(ctx)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = host.Unlock() }()
	progress.Note("session " + host.ID + ", " + plan.About)
	s := &session{l: l, plan: plan, progress: progress, host: host}
	run := s.run
	if whole, ok := l.cfg.Engine.(sandbox.Whole); ok {
		run = func(ctx context.Context) (Result, error) { return s.runWhole(ctx, whole) }
	}
	result, err := run(ctx)
	result.Session = host.ID
	return result, errors.Join(err, s.finish(context.WithoutCancel(ctx), result, err))
}

func (s *session) run(ctx context.Context) (Result, error) {
	if err := s.begin(ctx); err != nil {
		return Result{}, err
	}
	for _, step := range []func(context.Context) error{s.stage, s.open, s.serveAndAgent, s.quiesce, s.runChecks} {
		if err := step(ctx); err != nil {
			return Result{}, err
		}
		if err := ctx.Err(); err != nil {
			return Result{}, context.Cause(ctx)
		}
	}
	return s.audit(ctx)
}

func (s *session) begin(ctx context.Context) error {
	st := &s.host.State
	st.Product, st.Engine, st.Runtime = []byte(s.plan.Product), s.l.cfg.Engine.Name(), s.plan.Agent.Runtime
	st.Command = s.plan.Agent.Argv
	for _, w := range s.plan.Waive {
		st.Waivers = append(st.Waivers, string(w))
	}
	if err := os.Mkdir(s.host.StageParent(), 0o700); err != nil {
		return err
	}
	if s.l.cfg.Lease != nil {
		var err error
		if s.block, err = s.l.cfg.Lease(ctx, s.host.StageParent()); err != nil {
			return fmt.Errorf("lease ids for the session: %w", err)
		}
		st.Block = s.block.First
	}
	return s.host.Save()
}

// finish leaves nothing running, whatever happened, and says how it ended.
func (s *session) finish(ctx context.Context, r Result, runErr error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	errs := []error{s.dropAhead(ctx)}
	if s.openIn != nil {
		s.openIn.close()
	}
	if s.judges != nil {
		s.judges.close()
	}
	if s.server != nil {
		s.server.close()
	}
	if s.serve != nil {
		errs = append(errs, s.serve.remove(ctx))
	}
	_, err := s.l.cfg.Engine.Sweep(ctx, s.host.ID)
	errs = append(errs, err, s.l.cfg.Engine.RemovePart(ctx, sandbox.PartSockets, s.host.ID))
	s.host.State.Ended = time.Now().UTC()
	s.host.State.Verdict = r.Verdict
	if r.Verdict == "" {
		s.host.State.Verdict = "INDETERMINATE"
	}
	left := errors.Join(errs...)
	switch {
	case left != nil: // it has not ended: the next start cleans up after it
		return errors.Join(left, s.host.Save())
	case runErr != nil && !s.started():
		return s.l.forget(ctx, s.host)
	}
	s.host.State.Phase = "ended"
	return s.host.Save()
}

// started reports whether the supervisor has opened the session: before that,
// nothing of it is kept.
func (s *session) started() bool { return s.opened.SessionDigest != "" }

// forget removes everything of a session that is only the launcher's. The
// session is known for as long as something of it is left.
func (l *Launcher) forget(ctx context.Context, host *home.Session) error {
	err := errors.Join(
		l.removeStage(ctx, host),
		l.cfg.Engine.RemovePart(ctx, sandbox.PartSession, host.ID),
	)
	if err != nil {
		return err
	}
	return os.RemoveAll(host.Path())
}

func (s *session) stage(ctx context.Context) error {
	s.progress.Begin("stage", s.plan.Product)
	if err := s.host.SetPhase("stage"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.plan.AuditTimeout)
	defer cancel()
	if err := s.prepareOpen(ctx); err != nil {
		return err
	}
	if err := s.l.stageCopy(ctx, s.host, s.plan, s.block.First); err != nil {
		return fmt.Errorf("stage %s: %w", s.plan.Product, err)
	}
	s.progress.End("stage", "")
	return nil
}

func (s *session) baseline() string { return s.host.Path("baseline.stream") }

// prepareOpen makes the session's parts of control and begins to make the open
// step's container.
func (s *session) prepareOpen(ctx context.Context) error {
	engine, id := s.l.cfg.Engine, s.host.ID
	owner := s.l.identity(sandbox.RoleOpen, 0)
	for _, p := range []sandbox.Part{sandbox.PartSession, sandbox.PartSockets} {
		if err := engine.MakePart(ctx, p, id, owner); err != nil {
			return fmt.Errorf("make the session's part of control: %w", err)
		}
	}
	spec := s.l.spec(id, sandbox.RoleOpen, []string{"open"},
		s.l.part(sandbox.PartRootKeys, "", readOnly),
		s.l.part(sandbox.PartLedger, "", readWrite),
		s.l.part(sandbox.PartSession, id, readWrite))
	var err error
	if s.openIn, err = s.l.newInput(); err != nil {
		return err
	}
	s.openOut, s.openErr = &stepAnswer{}, newTail(stderrKept)
	s.opener = s.makeAhead(context.WithoutCancel(ctx), spec, sandbox.Streams{Stdin: s.openIn.r, Stdout: s.openOut, Stderr: s.openErr})
	return nil
}

func (s *session) open(ctx context.Context) error {
	s.progress.Begin("open", "")
	if err := s.host.SetPhase("open"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.plan.AuditTimeout)
	defer cancel()
	req, err := s.openRequest()
	if err != nil {
		return err
	}
	if s.server, err = s.l.prepareServe(s, s.onEvent); err != nil {
		return err
	}
	if s.opened, err = s.openStep(ctx, req); err != nil {
		return err
	}
	s.anchor = &s.opened.Anchor
	if err := s.l.cfg.Home.RaiseAnchor(s.l.place.Engine, s.opened.Anchor); err != nil {
		return err
	}
	s.progress.End("open", fmt.Sprintf("policy %.8s", s.opened.PolicyDigest))
	return nil
}

func (s *session) openRequest() (wire.OpenRequest, error) {
	anchor, err := s.l.cfg.Home.Anchor(s.l.place.Engine)
	if err != nil {
		return wire.OpenRequest{}, err
	}
	req := wire.OpenRequest{
		Schema: "proctor/open/v1", Session: s.host.ID, Product: wire.NewPath(s.plan.Product),
		PolicyPath: s.plan.PolicyPath, Policy: s.plan.Policy, ProductPolicy: s.plan.ProductPolicy, Observer: "stdin", User: s.plan.User,
		Started: s.host.State.Started, Engine: wireEngine(s.l.cfg.Info), Anchor: anchor,
		Command: s.plan.Agent.Argv, Waivers: []string{}, Files: []wire.File{},
		Images: []wire.Image{wireImage("supervisor", s.l.supervisor), wireImage("agent", s.plan.Agent.Image)},
	}
	for _, w := range s.plan.Waive {
		req.Waivers = append(req.Waivers, string(w))
	}
	for i := range s.plan.Checks {
		c := &s.plan.Checks[i]
		req.Images = append(req.Images, wireImage("check "+c.Name, c.Image))
		for j := range c.Lay {
			lay := &c.Lay[j]
			if lay.SHA256, err = takeFile(lay.From, s.layPath(i, j)); err != nil {
				return req, fmt.Errorf("check %s: %w", c.Name, err)
			}
			req.Files = append(req.Files, wire.File{Check: c.Name, From: wire.NewPath(lay.From), To: lay.To, SHA256: lay.SHA256})
		}
	}
	return req, nil
}

// layDir holds the copies of the operator's files for one check; layPath is one.
func (s *session) layDir(check int) string {
	return filepath.Join(s.host.StageParent(), "lay", fmt.Sprint(check))
}

func (s *session) layPath(check, file int) string {
	return filepath.Join(s.layDir(check), fmt.Sprint(file))
}
