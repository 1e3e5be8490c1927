package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/inside"
	"github.com/proctor-project/proctor/sidecar/wire"
)

const (
	toolsDir  = "/.proctor/bin"
	agentInit = toolsDir + "/proctor-agent"
)

// serveAndAgent runs the agent beside serve until it has ended.
func (s *session) serveAndAgent(ctx context.Context) error {
	s.progress.Begin("serve", "")
	if err := s.host.SetPhase("serve"); err != nil {
		return err
	}
	var err error
	made, out := s.prepareAgent(ctx) // while serve starts
	if s.serve, err = s.server.start(ctx, s.plan.Doors.Request); err != nil {
		return err
	}
	s.reports = append(s.reports, s.serve.c.Report())
	if err := s.host.SetPhase("agent"); err != nil {
		return err
	}
	s.progress.Live(s.doors.live())
	if err := s.runAgent(ctx, made, out); err != nil {
		return err
	}
	s.progress.End("serve", "agent "+s.agent.Outcome+statusText(*s.agent))
	return nil
}

func statusText(p wire.Process) string {
	if p.Outcome == "exited" {
		return fmt.Sprintf(": exit %d", p.Exit)
	}
	return ""
}

// initArgv is proctor-agent as a container's first process.
func initArgv(product, dir string, entries int, more ...string) []string {
	argv := []string{agentInit, "init", "--dir", dir, "--writable", product, "--entries", fmt.Sprintf("%s=%d", product, entries)}
	return append(append(argv, more...), "--")
}

func (s *session) processSpec(role sandbox.Role, name string, p Process, argv []string, mounts ...sandbox.Mount) sandbox.Spec {
	all := []sandbox.Mount{
		{Kind: sandbox.MountTmpfs, Target: "/tmp", Writable: true, Size: 256 << 20},
		{Kind: sandbox.MountBind, Source: s.l.agentTools(), Target: toolsDir},
	}
	return sandbox.Spec{
		Session: s.host.ID, Role: role, Name: name, Image: p.Image,
		Argv: append(argv, p.Argv...), Env: p.Env, Dir: "/",
		Identity: s.l.identity(role, s.block.First),
		Mounts:   append(append(all, p.Mounts...), mounts...),
		Limits:   p.Limits, Runtime: p.Runtime, Waive: s.plan.Waive, Grace: p.Grace,
	}
}

// prepareAgent begins to make the agent's container. Nothing of the session
// that has the root key is alive any more.
func (s *session) prepareAgent(ctx context.Context) (*ahead, *output) {
	p := s.plan.Agent
	sockets := s.l.cfg.Engine.Part(sandbox.PartSockets, s.host.ID)
	sockets.Target, sockets.NoExec = sandbox.PartSockets.Target(), s.l.cfg.Info.MountFlags
	more := []string{"--supervisor", inside.SocketPath}
	for _, b := range s.plan.Doors.Bridges {
		more = append(more, "--bridge", fmt.Sprintf("%d=%s/%s", b.Port, sandbox.PartSockets.Target(), b.Socket))
	}
	streams := sandbox.Streams{}
	out := newOutput(p.Output, s.plan.Output)
	if s.plan.Terminal != nil {
		more = append(more, "--terminal")
		streams.Terminal = s.plan.Terminal
	} else {
		streams.Stdout, streams.Stderr = out, out
	}
	spec := s.processSpec(sandbox.RoleAgent, "proctor-"+s.host.ID+"-agent", p,
		initArgv(s.plan.Product, s.plan.Product, s.opened.RootEntries, more...),
		sandbox.Mount{Kind: sandbox.MountBind, Source: s.host.Stage(), Target: s.plan.Product, Writable: true},
		sockets)
	spec.Terminal = s.plan.Terminal != nil
	return s.makeAhead(ctx, spec, streams), out
}

func (s *session) runAgent(ctx context.Context, made *ahead, out *output) error {
	p := s.plan.Agent
	c, err := made.take()
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	s.reports = append(s.reports, c.Report())
	proc := wire.Process{Name: "agent", Argv: p.Argv, Image: p.Image.Digest, Reported: "engine"}
	err = s.await(ctx, c, p, &proc, s.serve.done, nil)
	out.describe(&proc)
	if proc.Outcome == "start-failed" && proc.Exit == inside.ExitUnproved && s.serve.hasEnded(lostGrace) {
		proc.Outcome = "lost" // the agent's first process noticed before this one did
	}
	s.agent = &proc
	if proc.Outcome == "lost" {
		s.problems = append(s.problems, "the supervisor ended while the agent ran: "+s.serve.failure().Error())
	}
	return err
}

// await starts a container and follows it to its end, and past it: the
// container is gone when it returns. How it ended goes into proc.
func (s *session) await(ctx context.Context, c sandbox.Container, p Process, proc *wire.Process, lost <-chan struct{}, overflow <-chan struct{}) error {
	cleanup := context.WithoutCancel(ctx)
	if err := c.Start(ctx); err != nil {
		proc.Outcome, proc.Detail = "start-failed", err.Error()
		return c.Remove(cleanup)
	}
	type end struct {
		exit sandbox.Exit
		err  error
	}
	ended := make(chan end, 1)
	go s.l.cfg.Crash.Guard(func() {
		exit, err := c.Wait(cleanup)
		ended <- end{exit, err}
	})()
	timeout := time.NewTimer(p.Timeout)
	defer timeout.Stop()
	var cause string
	var e end
	halt := c.Kill
	select {
	case e = <-ended:
	case <-timeout.C:
		cause, halt = "timeout", c.Stop
	case <-overflow:
		cause = "overflow"
	case <-s.stopFor(c):
		cause, halt = "stopped", c.Stop
	case <-lost:
		cause = "lost"
	case <-ctx.Done():
		cause = "stopped"
	}
	if cause != "" {
		stopErr := s.halt(ctx, c, halt)
		if stopErr != nil {
			stopErr = errors.Join(stopErr, c.Kill(cleanup))
		}
		select {
		case e = <-ended:
		case <-time.After(endWait):
			e.err = errors.New("it was killed, and has not ended")
		}
		e.err = errors.Join(e.err, stopErr)
	}
	describe(proc, e.exit, e.err, cause)
	return c.Remove(cleanup)
}

// endWait is how long the end of a container that was killed may take.
const endWait = time.Minute

// halt ends a container in the given way, and at once when the operator asks a
// second time.
func (s *session) halt(ctx context.Context, c sandbox.Container, how func(context.Context) error) error {
	cleanup := context.WithoutCancel(ctx)
	done := make(chan error, 1)
	go s.l.cfg.Crash.Guard(func() { done <- how(cleanup) })()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errors.Join(c.Kill(cleanup), <-done)
	}
}

// stopFor is the operator's wish to end the agent; checks are not ended by it.
func (s *session) stopFor(c sandbox.Container) <-chan struct{} {
	if c.Report().Role == sandbox.RoleAgent {
		return s.plan.Stop
	}
	return nil
}

// describe says how a process ended. What ended it early comes before how it
// looked when it ended, so that a killed check is never taken for a finished one.
func describe(proc *wire.Process, exit sandbox.Exit, err error, cause string) {
	proc.Exit, proc.Started, proc.Finished = exit.Code, exit.Started.UTC(), exit.Finished.UTC()
	switch {
	case cause != "":
		proc.Outcome = cause
	case err != nil:
		proc.Outcome = "lost"
	case exit.OOM:
		proc.Outcome = "oom"
	case exit.Signal != 0:
		proc.Outcome = "signalled"
	case exit.Code == inside.ExitUnproved:
		proc.Outcome = "start-failed"
	default:
		proc.Outcome = "exited"
	}
	if err != nil {
		proc.Detail = err.Error()
	}
}

// quiesce makes sure that nothing of the agent is left, and closes the record.
func (s *session) quiesce(ctx context.Context) error {
	s.progress.Begin("quiesce", "")
	if err := s.host.SetPhase("quiesce"); err != nil {
		return err
	}
	if s.agent.Outcome == "start-failed" {
		why := s.agent.Detail
		if why == "" {
			why = lastLine(s.agent.Output)
		}
		s.problems = append(s.problems, "the agent's container did not start as asked: "+why)
	}
	if err := s.checkQuiet(ctx); err != nil {
		return err
	}
	if len(s.plan.Checks) == 0 { // else a check may still come, beside which no root key may be
		var err error
		if s.judges, err = s.prepareJudges(ctx); err != nil {
			return err
		}
	}
	head, err := s.serve.close(ctx)
	if err != nil {
		s.problems = append(s.problems, err.Error())
	}
	s.record = head
	s.progress.End("quiesce", fmt.Sprintf("agent ended: %s%s; %s", s.agent.Outcome, statusText(*s.agent), quietText(s.quiet))+s.doors.text())
	return nil
}

func quietText(users []string) string {
	if len(users) == 0 {
		return "no other writer"
	}
	return fmt.Sprintf("%d others still use the product", len(users))
}

// checkQuiet asks the engine and the host who still has the stage.
func (s *session) checkQuiet(ctx context.Context) error {
	users, err := s.l.users(ctx, s.host.Stage())
	if err != nil {
		// Not an end: seal is told, and nothing passes.
		s.problems = append(s.problems, "who still uses the product could not be found out: "+err.Error())
		return nil //nolint:nilerr // see above
	}
	for _, u := range users {
		s.quiet = append(s.quiet, u)
		s.problems = append(s.problems, u+" can still write the product")
	}
	return nil
}

// output relays what a hostile process prints, up to its bound, and keeps the
// last of it.
type output struct {
	mu       sync.Mutex
	tail     *tail
	most     int64
	to       io.Writer
	overflow chan struct{}
	told     bool
}

func newOutput(most int64, to io.Writer) *output {
	return &output{tail: newTail(4 << 10), most: most, to: to, overflow: make(chan struct{})}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.tail.count()
	n := len(p)
	_, _ = o.tail.Write(p)
	if before+int64(n) > o.most {
		if !o.told {
			o.told = true
			close(o.overflow)
		}
		p = p[:max(0, o.most-before)]
	}
	if o.to != nil && len(p) > 0 {
		// A reader of ours that went away does not end the session (case U2).
		_, _ = o.to.Write(p)
	}
	return n, nil
}

func (o *output) describe(p *wire.Process) {
	p.Output, p.Bytes = string(bytesToValid(o.tail.bytes())), o.tail.count()
}
