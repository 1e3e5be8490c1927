package launch

import (
	"context"
	"errors"

	"github.com/proctor-project/proctor/sandbox"
)

// ahead is a container that is being made while an earlier step goes on. No
// payload of it runs before it is taken and started.
type ahead struct {
	done  chan struct{}
	c     sandbox.Container
	err   error
	taken bool
}

// makeAhead begins to make a container. Every one is either taken or removed by
// dropAhead.
func (s *session) makeAhead(ctx context.Context, spec sandbox.Spec, streams sandbox.Streams) *ahead {
	a := &ahead{done: make(chan struct{})}
	s.pending = append(s.pending, a)
	go s.l.cfg.Crash.Guard(func() {
		defer close(a.done)
		a.c, a.err = s.l.cfg.Engine.Create(ctx, spec, streams)
	})()
	return a
}

// take waits for the container. Its taker removes it.
func (a *ahead) take() (sandbox.Container, error) {
	<-a.done
	a.taken = true
	return a.c, a.err
}

// dropAhead waits for every container that was begun and removes those that
// nobody took.
func (s *session) dropAhead(ctx context.Context) error {
	var errs []error
	for _, a := range s.pending {
		<-a.done
		if !a.taken && a.err == nil {
			errs = append(errs, a.c.Remove(ctx))
		}
	}
	s.pending = nil
	return errors.Join(errs...)
}
