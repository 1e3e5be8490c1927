package launch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/proctor-project/proctor/sandbox"
)

// watched is an orchestrator's session, and what is known of it so far.
type watched struct {
	made sandbox.Following
	stop func()
	done chan struct{}

	mu      sync.Mutex
	state   sandbox.Progress
	over    bool
	changed chan struct{} // closed and replaced at each change
}

func (s *session) watch(ctx context.Context, made sandbox.Following) *watched {
	ctx, cancel := context.WithCancel(ctx)
	w := &watched{made: made, stop: cancel, done: make(chan struct{}), changed: make(chan struct{})}
	go s.l.cfg.Crash.Guard(func() {
		defer close(w.done)
		shown := 0
		for p := range made.Updates(ctx) {
			shown = s.show(p, shown)
			w.set(p, p.Ended)
		}
		w.set(w.now(), true)
	})()
	return w
}

func (w *watched) end() {
	w.stop()
	<-w.done
}

func (w *watched) set(p sandbox.Progress, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state, w.over = p, over
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watched) now() sandbox.Progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

func ended(step string) func(sandbox.Progress) bool {
	return func(p sandbox.Progress) bool { return p.Step(step).Ended }
}

// until waits until the session is so far. A session that ends before, or cannot
// go on, is an error that names the step.
func (w *watched) until(ctx context.Context, far func(sandbox.Progress) bool) error {
	for {
		w.mu.Lock()
		state, over, changed := w.state, w.over, w.changed
		w.mu.Unlock()
		if bad := failed(state); bad != "" {
			return w.failure(ctx, bad)
		}
		if far(state) {
			return nil
		}
		if state.Broken {
			return &sandbox.RefusedError{Container: "of the session", Problems: []string{state.Stuck}}
		}
		if over {
			return w.lost(state)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", phase(state), context.Cause(ctx))
		}
	}
}

// reasonOOM is an orchestrator's word for a step in which the kernel ended a
// process for memory. The step may have ended with 0, and no other follows it.
const reasonOOM = "OOMKilled"

// failed is the first step that ended, and not well: after it nothing is sealed.
// Seal's status is its verdict; serve ends in any way when all is over, but not
// before there was an agent.
func failed(p sandbox.Progress) string {
	agent := p.Step(stepAgent)
	for _, s := range p.Steps {
		over := s.Name == stepSeal || s.Name == stepSend || s.Name == stepServe && (agent.Running || agent.Ended)
		if s.Ended && (s.Code != 0 || s.Reason == reasonOOM) && !over {
			return s.Name
		}
	}
	return ""
}

// phase is the step that the session is at.
func phase(p sandbox.Progress) string {
	at := "start"
	for _, s := range p.Steps {
		if s.Running && s.Name != stepServe {
			at = s.Name
		}
	}
	if p.Stuck != "" {
		return at + ": " + p.Stuck
	}
	return at
}

func (w *watched) lost(p sandbox.Progress) error {
	if err := w.made.Err(); err != nil {
		return fmt.Errorf("%s: %w", phase(p), err)
	}
	return fmt.Errorf("%s: the orchestrator ended the session before it was sealed", phase(p))
}

// failure is how a step ended, in its own last words.
func (w *watched) failure(ctx context.Context, name string) error {
	state := w.now().Step(name)
	if state.Reason == reasonOOM {
		return fmt.Errorf("%s: it was killed for memory; nothing is sealed", name)
	}
	stderr := newTail(stderrKept)
	err := w.made.Output(ctx, name, stderr)
	said := stepError(name, sandbox.Exit{Code: state.Code}, stderr)
	if said.Text == "" && err != nil {
		return errors.Join(said, err)
	}
	return said
}

// show is the progress of the steps in their order: serve is done when it
// answers.
func (s *session) show(p sandbox.Progress, shown int) int {
	if p.Stuck != "" {
		s.progress.Live(p.Stuck)
	}
	for i, step := range p.Steps {
		over := step.Ended || step.Name == stepServe && step.Ready
		if i < shown/2 || step.Name == stepSend {
			continue
		}
		if i == shown/2 && shown%2 == 0 && (step.Running || over) {
			s.progress.Begin(step.Name, "")
			shown++
		}
		if i == shown/2 && shown%2 == 1 && over {
			s.progress.End(step.Name, step.Reason)
			shown++
		}
	}
	return shown
}
