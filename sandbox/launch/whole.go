package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/chain"
	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// runWhole is a session whose steps an orchestrator starts: this launcher brings
// the product, follows, tells seal what the orchestrator's API knows, and takes
// home what was sealed.
func (s *session) runWhole(ctx context.Context, engine sandbox.Whole) (Result, error) {
	if err := s.plan.wholeCan(); err != nil {
		return Result{}, err
	}
	if err := s.begin(ctx); err != nil {
		return Result{}, err
	}
	digest, err := s.stageWhole(ctx)
	if err != nil {
		return Result{}, err
	}
	asked, err := s.chain(digest)
	if err != nil {
		return Result{}, err
	}
	if err := s.host.SetPhase("open"); err != nil {
		return Result{}, err
	}
	made, err := engine.Submit(ctx, s.host.ID, asked)
	if err != nil {
		return Result{}, err
	}
	w := s.watch(ctx, made)
	defer w.end()
	result, err := s.followWhole(ctx, w)
	if err != nil {
		return Result{}, errors.Join(err, context.Cause(ctx))
	}
	return result, nil
}

// wholeCan refuses what an orchestrator's session cannot be given.
func (p Plan) wholeCan() error {
	var problems []string
	add := func(is bool, what string) {
		if is {
			problems = append(problems, what)
		}
	}
	add(p.Terminal != nil, "a terminal for the agent")
	add(p.ProductPolicy != nil, "a policy that the product brings along")
	add(len(p.Agent.Mounts) > 0, "mounts of the agent")
	for _, c := range p.Checks {
		add(len(c.Lay) > 0, "files of check "+c.Name)
	}
	var errs []error
	if len(problems) > 0 {
		errs = append(errs, &sandbox.RefusedError{Container: "of the session", Problems: []string{"an orchestrator's session cannot have " + strings.Join(problems, ", ")}})
	}
	if len(p.Doors.Bridges) > 0 && !slices.Contains(p.Waive, sandbox.WaiveSharedNetwork) {
		errs = append(errs, sandbox.NoSharedNetwork())
	}
	return errors.Join(errs...)
}

// stageWhole makes the private copy, as for every engine, and answers with the
// digest of its tree stream.
func (s *session) stageWhole(ctx context.Context) (string, error) {
	s.progress.Begin("stage", s.plan.Product)
	if err := s.host.SetPhase("stage"); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, s.plan.AuditTimeout)
	defer cancel()
	if err := s.l.stageCopy(ctx, s.host, s.plan, s.block.First); err != nil {
		return "", fmt.Errorf("stage %s: %w", s.plan.Product, err)
	}
	stream, err := os.Open(s.baseline())
	if err != nil {
		return "", err
	}
	defer func() { _ = stream.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, stream); err != nil {
		return "", err
	}
	s.progress.End("stage", "")
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// chain is the plan as the orchestrator's steps.
func (s *session) chain(digest string) (chain.Session, error) {
	c := chain.Session{
		Product: s.plan.Product, Policy: s.plan.Policy, Limits: s.plan.Limits.args(),
		Agent: chainProcess(s.plan.Agent), Launched: &chain.Launched{StreamSHA256: digest},
	}
	for _, check := range s.plan.Checks {
		c.Checks = append(c.Checks, chain.Check{Process: chainProcess(check.Process), Name: check.Name, Dir: check.Dir})
	}
	open := []string{"--launcher", s.host.ID, "--user", s.plan.User, "--engine", s.l.cfg.Info.Engine, "--engine-version", s.l.cfg.Info.EngineVersion}
	for _, w := range s.plan.Waive {
		c.Waive = append(c.Waive, string(w))
	}
	c.Doors = len(s.plan.Doors.Bridges) > 0
	for _, b := range s.plan.Doors.Bridges {
		c.Bridges = append(c.Bridges, fmt.Sprintf("%d=%s", b.Port, b.Socket))
	}
	known, err := s.l.cfg.Home.Anchor(s.l.place.Engine)
	if err != nil {
		return c, err
	}
	if known != nil {
		open = append(open, "--known-control", known.ControlID, "--known-count", strconv.FormatUint(known.Count, 10), "--known-hash", known.Hash)
	}
	c.Launched.Open = open
	return c, nil
}

func chainProcess(p Process) chain.Process {
	return chain.Process{
		Image: p.Image.Ref, Argv: p.Argv, Env: p.Env, Runtime: p.Runtime, Timeout: p.Timeout, Grace: p.Grace,
		Limits: chain.Limits{Memory: p.Limits.Memory, PIDs: p.Limits.PIDs, Milli: p.Limits.MilliCPUs, Files: p.Limits.OpenFiles, Output: p.Output, Temp: 256 << 20},
	}
}

// Names of the steps that this launcher has something to do with.
const (
	stepStage = "stage"
	stepOpen  = "open"
	stepServe = "serve"
	stepAgent = "agent"
	stepSeal  = "seal"
	stepSend  = "send"
)

func (s *session) followWhole(ctx context.Context, w *watched) (Result, error) {
	if err := s.bring(ctx, w); err != nil {
		return Result{}, err
	}
	if err := w.until(ctx, ended(stepOpen)); err != nil {
		return Result{}, err
	}
	s.opened.SessionDigest = "in the Pod's part of control" // from here on something is kept
	if err := s.host.SetPhase("agent"); err != nil {
		return Result{}, err
	}
	relayed := s.relayWhole(ctx, w)
	defer relayed()
	err := w.until(ctx, func(p sandbox.Progress) bool { return p.Step(stepSeal).Running && p.Step(stepSend).Running })
	if err != nil {
		return Result{}, err
	}
	if err := s.host.SetPhase("audit"); err != nil {
		return Result{}, err
	}
	told, err := w.made.Facts(ctx)
	if err != nil {
		return Result{}, err
	}
	reply, err := s.sealWhole(ctx, w, told)
	if err != nil {
		return Result{}, err
	}
	if err := s.takeHome(ctx, w, reply); err != nil {
		return Result{}, err
	}
	// The seal is kept only when nothing happened since its word was given.
	facts, err := w.made.Facts(ctx)
	if err != nil {
		return Result{}, err
	}
	since := slices.DeleteFunc(facts.Problems, func(p string) bool { return slices.Contains(told.Problems, p) })
	if len(since) > 0 {
		return Result{}, fmt.Errorf("after the launcher's word: %s", strings.Join(since, "; "))
	}
	return s.keepWhole(reply)
}

// bring writes the product into the step that waits for it.
func (s *session) bring(ctx context.Context, w *watched) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.plan.AuditTimeout, errors.New("stage: the product was not brought in time"))
	defer cancel()
	if err := w.until(ctx, func(p sandbox.Progress) bool { return p.Step(stepStage).Running }); err != nil {
		return err
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = pr.Close() }()
	packed := make(chan error, 1)
	go s.l.cfg.Crash.Guard(func() { packed <- errors.Join(s.l.pack(ctx, s.host, s.block.First, pw), pw.Close()) })()
	feedErr := w.made.Feed(ctx, stepStage, pr, nil)
	_ = pr.Close()
	packErr := <-packed
	if feedErr != nil { // whether the step has its end of it, nobody knows
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, saysWhy)
		defer cancel()
	}
	if err := w.until(ctx, ended(stepStage)); err != nil {
		if feedErr != nil && ctx.Err() != nil {
			return feedErr
		}
		return err // the step itself says best what was wrong
	}
	return errors.Join(feedErr, packErr)
}

// saysWhy is how long a step that could not be talked to has to say why.
const saysWhy = 5 * time.Second

// pack writes the host's stage as one parcel. Who reads it has the session's ids,
// as who copied it.
func (l *Launcher) pack(ctx context.Context, host *home.Session, block uint32, w *os.File) error {
	stage, err := os.Open(host.StageParent())
	if err != nil {
		return err
	}
	defer func() { _ = stage.Close() }()
	stream, err := os.Open(host.Path("baseline.stream"))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	owner, err := actorOver(stage)
	if err != nil {
		return err
	}
	id, stderr := l.identity(sandbox.RoleAgent, block), newTail(stderrKept)
	err = l.cfg.InUserNS(ctx, Child{
		Argv:  []string{filepath.Join(l.cfg.Tools, "proctor-sidecar"), "pack", "--stage-name", filepath.Base(host.Stage())},
		Owner: owner, Stage: IDs{id.Host, id.Host}, Stdout: w, Stderr: stderr, Files: []*os.File{stage, stream},
	})
	return childError("pack", err, stderr)
}

// relayWhole shows what agent and checks print and what serve's doors refuse, and
// passes on the operator's wish to stop. What it returns ends that.
func (s *session) relayWhole(ctx context.Context, w *watched) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var relays sync.WaitGroup
	for _, relay := range []func(context.Context, *watched){s.relayOutput, s.relayDoors, s.relayStop} {
		relays.Go(s.l.cfg.Crash.Guard(func() { relay(ctx, w) }))
	}
	return func() {
		cancel()
		relays.Wait()
	}
}

func (s *session) relayOutput(ctx context.Context, w *watched) {
	names := []string{stepAgent}
	for _, c := range s.plan.Checks {
		names = append(names, "check-"+c.Name)
	}
	for i, name := range names {
		most, to := s.plan.Agent.Output, s.plan.Output
		if i > 0 {
			most, to = s.plan.Checks[i-1].Output, s.plan.CheckOutput
		}
		if err := w.until(ctx, func(p sandbox.Progress) bool { return p.Step(name).Running || p.Step(name).Ended }); err != nil {
			return
		}
		s.relayed(ctx, name, w.made.Output(ctx, name, newOutput(most, to))) // it decides nothing
	}
}

// relayDoors is for refusals, and what the doors did: the verbs that answer an
// agent's requests do not reach a session in a Pod.
func (s *session) relayDoors(ctx context.Context, w *watched) {
	if len(s.plan.Doors.Bridges) == 0 || w.until(ctx, func(p sandbox.Progress) bool { return p.Step(stepServe).Ready }) != nil {
		return
	}
	events := newEventReader(func(e wire.ServeEvent) {
		switch e.Event {
		case wire.EventRequest:
		case wire.EventRefused:
			var r wire.Refused
			if decode(e.Data, &r) {
				if r.Door == wire.DoorTrust {
					r.Review, r.Remedy = nil, nil // the session's part of control is out of reach
				}
				s.noteRefused(r)
			}
		default:
			s.onEvent(e)
		}
	})
	events.mixed = true
	s.relayed(ctx, stepServe, w.made.Output(ctx, stepServe, events))
}

// relayed says that something is not shown. What was ended is not.
func (s *session) relayed(ctx context.Context, name string, err error) {
	if err != nil && ctx.Err() == nil {
		s.progress.Note("what " + name + " prints is not shown: " + display.Escape(err.Error()))
	}
}

func (s *session) relayStop(ctx context.Context, w *watched) {
	select {
	case <-s.plan.Stop:
		s.progress.Live("the agent is being stopped")
		if err := w.until(ctx, func(p sandbox.Progress) bool { return p.Step(stepServe).Ready }); err != nil {
			return
		}
		_ = w.made.Feed(ctx, stepServe, strings.NewReader("stop\n"), nil) // its timeout ends it otherwise
	case <-ctx.Done():
	}
}

// sealWhole gives seal the launcher's word and takes its answer: the manifest and
// the record follow it.
func (s *session) sealWhole(ctx context.Context, w *watched, facts sandbox.Facts) (wire.SealReply, error) {
	var reply wire.SealReply
	ctx, cancel := context.WithTimeoutCause(ctx, s.plan.AuditTimeout, errors.New("seal: it did not end in time"))
	defer cancel()
	word, err := line(s.word(facts))
	if err != nil {
		return reply, err
	}
	rest, err := os.OpenFile(s.host.Path("manifest.new"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return reply, err
	}
	defer func() { _ = rest.Close() }()
	out := &stepAnswer{rest: rest}
	feedErr := w.made.Feed(ctx, stepSeal, strings.NewReader(string(word)), out)
	if err := out.read(&reply); err != nil {
		said := w.until(ctx, func(p sandbox.Progress) bool { return p.Step(stepSeal).Ended && p.Step(stepSeal).Code != 0 })
		return reply, errors.Join(w.failure(context.WithoutCancel(ctx), stepSeal), said, feedErr)
	}
	if err := w.until(ctx, ended(stepSeal)); err != nil {
		return reply, err
	}
	return reply, s.splitRecord(rest, reply.Manifest)
}

// splitRecord puts what follows the manifest into a file of its own.
func (s *session) splitRecord(rest *os.File, manifest int64) error {
	size, err := rest.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if size < manifest {
		return fmt.Errorf("seal: manifest has %d bytes, and was announced with %d", size, manifest)
	}
	record, err := os.OpenFile(s.host.Path("record"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(record, io.NewSectionReader(rest, manifest, size-manifest))
	return errors.Join(err, record.Close(), rest.Truncate(manifest))
}

// word is what only the orchestrator's API knows.
func (s *session) word(facts sandbox.Facts) wire.PodWord {
	word := wire.PodWord{Schema: "proctor/pod-word/v1", Session: s.host.ID, Problems: append([]string{}, facts.Problems...), OOM: []string{}, Containers: []wire.Container{}}
	for _, step := range facts.OOM {
		word.OOM = append(word.OOM, strings.TrimPrefix(step, "check-"))
	}
	for _, r := range facts.Reports {
		word.Containers = append(word.Containers, wireContainer(r))
	}
	return word
}

// takeHome replaces the host's copy by the sealed one. A product that could not
// be read in full has no digest, and stays where it is.
func (s *session) takeHome(ctx context.Context, w *watched, reply wire.SealReply) error {
	if reply.Tree == "" {
		s.progress.Note("the product could not be read in full, and is not brought home")
		return nil
	}
	s.progress.Begin("bring", "")
	ctx, cancel := context.WithTimeoutCause(ctx, s.plan.AuditTimeout, errors.New("bring: the product did not come home in time"))
	defer cancel()
	pr, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = pr.Close() }()
	fed := make(chan error, 1)
	go s.l.cfg.Crash.Guard(func() { fed <- errors.Join(w.made.Feed(ctx, stepSend, strings.NewReader("send\n"), pw), pw.Close()) })()
	err = s.l.unpack(ctx, s.host, s.plan, s.block.First, reply.Tree, pr)
	_ = pr.Close()
	if fedErr := <-fed; err != nil {
		return errors.Join(err, fedErr)
	}
	s.progress.End("bring", "")
	return nil
}

// unpack makes the host's stage of a parcel, whose tree has to be this one.
func (l *Launcher) unpack(ctx context.Context, host *home.Session, plan Plan, block uint32, tree string, from *os.File) error {
	if err := l.emptyStage(ctx, host); err != nil {
		return err
	}
	src, err := os.Open(plan.Product)
	if err != nil {
		return err
	}
	owner, err := actorOver(src)
	if err := errors.Join(err, src.Close()); err != nil {
		return err
	}
	dst, err := makeStage(host, owner)
	if err != nil {
		return err
	}
	defer func() { _ = dst.Close() }()
	stream, err := os.OpenFile(host.Path("product.stream"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	id, stderr := l.identity(sandbox.RoleAgent, block), newTail(stderrKept)
	argv := append([]string{filepath.Join(l.cfg.Tools, "proctor-sidecar"), "unpack", "--tree", tree}, plan.Limits.args()...)
	if id.Host == owner.UID {
		argv = append(argv, "--own")
	}
	err = l.cfg.InUserNS(ctx, Child{
		Argv: argv, Owner: owner, Stage: IDs{id.Host, id.Host},
		Stdin: from, Stdout: io.Discard, Stderr: stderr, Files: []*os.File{dst, stream},
	})
	return childError("bring home", err, stderr)
}

// keepWhole keeps what was sealed.
func (s *session) keepWhole(reply wire.SealReply) (Result, error) {
	if err := s.l.cfg.Home.RaiseAnchor(s.l.place.Engine, reply.Anchor); err != nil {
		return Result{}, err
	}
	if err := s.l.cfg.Home.KeepSeal(s.host.ID, reply.Number, reply.Seal, s.host.Path("manifest.new")); err != nil {
		return Result{}, err
	}
	s.host.State.Seals = reply.Number
	return Result{
		Verdict: reply.Verdict, Reasons: reply.Reasons, Seal: reply.Seal, SealPath: s.l.cfg.Home.SealPath(s.host.ID), Problems: s.problems,
	}, nil
}
