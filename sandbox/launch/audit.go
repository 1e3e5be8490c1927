package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// audit lets the reader's stream flow into seal, and keeps what seal answers.
func (s *session) audit(ctx context.Context) (Result, error) {
	s.progress.Begin("audit", "")
	if err := s.host.SetPhase("audit"); err != nil {
		return Result{}, err
	}
	s.request = s.sealRequest()
	if err := s.host.KeepFacts(home.Facts{
		Schema: "proctor/facts/v1", Request: s.request, Timeout: s.plan.AuditTimeout,
		MaxEntries: s.plan.Limits.Entries, MaxFileSize: s.plan.Limits.FileBytes, MaxTotalSize: s.plan.Limits.TotalBytes,
	}); err != nil {
		return Result{}, err
	}
	return s.judge(ctx)
}

// Audit judges a session's stage again: nothing but the ledger is new. A session
// whose launcher died before it had a seal gets its first one, if all that was
// missing was this audit.
func (l *Launcher) Audit(ctx context.Context, id string, progress Progress) (Result, error) {
	if _, ok := l.cfg.Engine.(sandbox.Whole); ok {
		return Result{}, &sandbox.RefusedError{Container: "of the audit", Problems: []string{"the session's part of control ended with it: run it again"}}
	}
	host, err := l.cfg.Home.Lock(ctx, id)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = host.Unlock() }()
	facts, err := host.Facts()
	if errors.Is(err, os.ErrNotExist) {
		return Result{}, fmt.Errorf("session %s ended before its audit began; what the agent and the checks did is not known", id)
	}
	if err != nil {
		return Result{}, err
	}
	s := &session{l: l, progress: progress, host: host, block: Block{First: host.State.Block}, request: facts.Request}
	s.plan.Product, s.plan.AuditTimeout = string(host.State.Product), facts.Timeout
	s.plan.Limits = TreeLimits{facts.MaxEntries, facts.MaxFileSize, facts.MaxTotalSize}
	if s.request.Anchor, err = l.cfg.Home.Anchor(l.place.Engine); err != nil {
		return Result{}, err
	}
	users, err := l.users(ctx, host.Stage())
	if err != nil {
		return Result{}, err
	}
	if len(users) > 0 {
		return Result{}, fmt.Errorf("session %s: %s still uses the stage", id, users[0])
	}
	var known wire.SealedSession
	if err := l.Verb(ctx, []string{"sealed", "--session", id}, Needs{LedgerKeys: true}, nil, &known); err != nil {
		return Result{}, err
	}
	s.request.Again = known.Number > 0
	progress.Begin("audit", "")
	result, err := s.judge(ctx)
	result.Session = id
	if err != nil {
		return result, err
	}
	host.State.Verdict, host.State.Phase = result.Verdict, "ended"
	return result, host.Save()
}

// judge runs the reader into seal and keeps what seal answers.
func (s *session) judge(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.plan.AuditTimeout)
	defer cancel()
	defer func() { _ = s.dropAhead(context.WithoutCancel(ctx)) }() // a container that this failed to take
	if s.judges == nil {
		var err error
		if s.judges, err = s.prepareJudges(ctx); err != nil {
			return Result{}, err
		}
	}
	defer s.judges.close()
	answer, err := s.readAndSeal(ctx)
	if err != nil {
		return Result{}, err
	}
	manifest := s.judges.manifest
	if size, err := manifest.Seek(0, io.SeekEnd); err != nil || size != answer.Manifest {
		return Result{}, errors.Join(err, fmt.Errorf("seal: manifest has %d bytes, and was announced with %d", size, answer.Manifest))
	}
	if err := s.l.cfg.Home.RaiseAnchor(s.l.place.Engine, answer.Anchor); err != nil {
		return Result{}, err
	}
	if err := s.l.cfg.Home.KeepSeal(s.host.ID, answer.Number, answer.Seal, manifest.Name()); err != nil {
		return Result{}, err
	}
	s.host.State.Seals = answer.Number
	s.progress.End("seal", fmt.Sprintf("%d entries", answer.Entries))
	return Result{
		Verdict: answer.Verdict, Reasons: answer.Reasons, Seal: answer.Seal,
		SealPath: s.l.cfg.Home.SealPath(s.host.ID), Problems: s.problems, FirstUse: s.opened.FirstUse,
	}, nil
}

// judges are the reader's container and seal's, both being made, with the pipe
// between them, whose writing end only this process and, while it lives, the
// reader hold.
type judges struct {
	cancel   func() // ends their making
	manifest *os.File
	pr, pw   *os.File
	out      *stepAnswer
	stderr   *tail // seal's
	sealer   *ahead
	reader   *reading
}

// prepareJudges begins to make both. No agent or check of the session is alive
// any more, and nobody else was found to have the stage.
func (s *session) prepareJudges(ctx context.Context) (*judges, error) {
	manifest, err := os.OpenFile(s.host.Path("manifest.new"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, manifest.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, s.plan.AuditTimeout)
	j := &judges{cancel: cancel, manifest: manifest, pr: pr, pw: pw, out: &stepAnswer{rest: manifest}, stderr: newTail(stderrKept)}
	spec := s.l.spec(s.host.ID, sandbox.RoleSeal, []string{"seal"},
		s.l.part(sandbox.PartRootKeys, "", readOnly),
		s.l.part(sandbox.PartLedger, "", readWrite),
		s.l.part(sandbox.PartCache, "", readOnly),
		s.l.part(sandbox.PartSession, s.host.ID, readWrite))
	j.sealer = s.makeAhead(ctx, spec, sandbox.Streams{Stdin: pr, Stdout: j.out, Stderr: j.stderr})
	j.reader = s.prepareReader(ctx, pw)
	return j, nil
}

// close is idempotent.
func (j *judges) close() {
	j.cancel()
	_ = j.pr.Close()
	_ = j.pw.Close()
	_ = j.manifest.Close()
}

// readAndSeal starts seal on its pipe. The reader writes into it directly; what
// follows the stream is this process's word of how the reader ended. Seal can
// pass nothing without that word, so a launcher that dies here leaves no PASS.
func (s *session) readAndSeal(ctx context.Context) (wire.SealReply, error) {
	var answer wire.SealReply
	j := s.judges
	c, err := j.sealer.take()
	if err != nil {
		return answer, fmt.Errorf("seal: %w", err)
	}
	cleanup := context.WithoutCancel(ctx)
	err = c.Start(ctx)
	_ = j.pr.Close() // the container has its own
	if err != nil {
		return answer, errors.Join(fmt.Errorf("seal: %w", err), c.Remove(cleanup))
	}
	err = s.feedSeal(ctx, j.pw, c.Report(), j.reader)
	if err != nil {
		return answer, errors.Join(err, sealSaid(ctx, c, j.stderr), c.Remove(cleanup))
	}
	exit, err := c.Wait(ctx)
	err = errors.Join(err, c.Remove(cleanup))
	if err == nil && exit.Code != 0 {
		err = stepError("seal", exit, j.stderr)
	}
	if err != nil {
		return answer, err
	}
	if err := j.out.read(&answer); err != nil {
		return answer, fmt.Errorf("seal: read its answer: %w", err)
	}
	return answer, nil
}

// sealSaid waits a little for the reason of a seal step that stopped listening.
func sealSaid(ctx context.Context, c sandbox.Container, stderr *tail) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	exit, err := c.Wait(ctx)
	if err != nil || exit.Code == 0 {
		return nil
	}
	return stepError("seal", exit, stderr)
}

func (s *session) feedSeal(ctx context.Context, pw *os.File, sealer sandbox.Report, r *reading) error {
	head, err := line(s.request)
	if err != nil {
		return err
	}
	if _, err := pw.Write(head); err != nil {
		return fmt.Errorf("seal: send its request: %w", err)
	}
	outcome := r.run(ctx)
	outcome.Containers = append(outcome.Containers, wireContainer(sealer))
	s.progress.End("audit", outcome.Error)
	s.progress.Begin("seal", "")
	last, err := line(outcome)
	if err != nil {
		return err
	}
	// A seal that stopped reading early has its reason, and says it itself.
	if _, err := pw.Write(last); err != nil && !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("seal: send how the reader ended: %w", err)
	}
	return pw.Close()
}

// reading is the reader's container, being made while seal's is.
type reading struct {
	made   *ahead
	stderr *tail
}

func (s *session) prepareReader(ctx context.Context, pw *os.File) *reading {
	r := &reading{stderr: newTail(stderrKept)}
	r.made = s.makeAhead(ctx, s.readSpec("stage", nil), sandbox.Streams{Stdout: pw, Stderr: r.stderr})
	return r
}

// run runs the reader into the pipe and says how it ended.
func (r *reading) run(ctx context.Context) wire.ReadOutcome {
	outcome := wire.ReadOutcome{Schema: "proctor/read/v1", Containers: []wire.Container{}}
	c, err := r.made.take()
	if err == nil {
		outcome.Containers = append(outcome.Containers, wireContainer(c.Report()))
		err = runMade(ctx, c, "read", r.stderr)
	}
	if err != nil {
		outcome.Exit, outcome.Error = 3, "the reader did not finish: "+err.Error()
		var step *StepError
		if errors.As(err, &step) {
			outcome.Exit = step.Exit.Code
		}
	}
	return outcome
}

func (s *session) sealRequest() wire.SealRequest {
	req := wire.SealRequest{
		Schema: "proctor/seal/v1", Session: s.host.ID, Agent: s.agent, Checks: s.checks,
		BeforeChecks: s.before, Quiescence: s.quiet, Containers: []wire.Container{}, RecordHead: s.record,
		Problems: s.problems, Anchor: s.anchor, Finished: time.Now().UTC(),
	}
	for _, r := range s.reports {
		req.Containers = append(req.Containers, wireContainer(r))
	}
	if req.Checks == nil {
		req.Checks = []wire.Process{}
	}
	if req.Quiescence == nil {
		req.Quiescence = []string{}
	}
	if req.Problems == nil {
		req.Problems = []string{}
	}
	return req
}
