package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// server is the running serve container.
type server struct {
	c      sandbox.Container
	stdin  *os.File // the lifeline: its end tells serve that the launcher is lost
	events *eventReader
	stderr *tail
	done   chan struct{} // closed when the container has ended
	exit   sandbox.Exit
	err    error
}

// closeTimeout bounds how long serve may take to close its record.
const closeTimeout = 30 * time.Second

// preparing is serve's container, being made while open runs.
type preparing struct {
	made *ahead
	in   *input
	s    *server
}

func (p *preparing) close() { _ = p.in.r.Close() }

func (l *Launcher) prepareServe(s *session, onEvent func(wire.ServeEvent)) (*preparing, error) {
	id := s.host.ID
	spec := l.spec(id, sandbox.RoleServe, []string{"serve"},
		l.part(sandbox.PartLedger, "", readOnly),
		l.part(sandbox.PartCache, "", readWrite),
		l.part(sandbox.PartSession, id, readWrite),
		l.part(sandbox.PartSockets, id, readWrite))
	if s.plan.Doors.Request != nil {
		spec.Network, spec.Limits.OpenFiles = sandbox.NetworkHost, doorFiles
	}
	in, err := l.newInput()
	if err != nil {
		return nil, err
	}
	p := &preparing{in: in, s: &server{stdin: in.w, events: newEventReader(onEvent), stderr: newTail(stderrKept), done: make(chan struct{})}}
	p.made = s.makeAhead(context.Background(), spec, sandbox.Streams{Stdin: in.r, Stdout: p.s.events, Stderr: p.s.stderr})
	return p, nil
}

// start lets serve run and returns when it is ready.
func (p *preparing) start(ctx context.Context, first *wire.ServeRequest) (*server, error) {
	s := p.s
	var err error
	if s.c, err = p.made.take(); err != nil {
		return nil, errors.Join(fmt.Errorf("serve: %w", err), s.stdin.Close())
	}
	err = s.c.Start(ctx)
	_ = p.in.r.Close() // the container has its own now
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve: %w", err), s.stdin.Close(), s.c.Remove(context.WithoutCancel(ctx)))
	}
	go p.in.crash.Guard(func() {
		defer close(s.done)
		s.exit, s.err = s.c.Wait(context.WithoutCancel(ctx))
	})()
	if err := s.say(first); err != nil {
		return nil, errors.Join(fmt.Errorf("serve: %w", err), s.remove(context.WithoutCancel(ctx)))
	}
	select {
	case <-s.events.ready:
		return s, nil
	case <-s.done:
		err = s.failure()
	case <-time.After(closeTimeout):
		err = fmt.Errorf("serve: not ready after %s", closeTimeout)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, errors.Join(err, s.remove(context.WithoutCancel(ctx)))
}

// doorFiles is serve's limit of open files with doors to the outside: a
// connection of the agent's and one to a host, a thousand times.
const doorFiles = 8192

// say writes serve's first line, where it needs one.
func (s *server) say(first *wire.ServeRequest) error {
	if first == nil {
		return nil
	}
	b, err := line(first)
	if err != nil {
		return err
	}
	if err := s.stdin.SetWriteDeadline(time.Now().Add(closeTimeout)); err != nil {
		return err
	}
	if _, err := s.stdin.Write(b); err != nil {
		return err
	}
	return s.stdin.SetWriteDeadline(time.Time{})
}

// lostGrace is how much later than its agent this process may hear of serve's end.
const lostGrace = 2 * time.Second

// hasEnded waits for serve's end, and reports whether it came.
func (s *server) hasEnded(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.done:
		return true
	case <-timer.C:
		return false
	}
}

func (s *server) failure() error {
	if s.err != nil {
		return fmt.Errorf("serve: %w", s.err)
	}
	return stepError("serve", s.exit, s.stderr)
}

// close tells serve to close its record and waits for its end.
func (s *server) close(ctx context.Context) (*wire.RecordHead, error) {
	_, err := io.WriteString(s.stdin, "close\n")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve is gone: %w", err), s.remove(ctx))
	}
	select {
	case <-s.done:
	case <-time.After(closeTimeout):
		err = fmt.Errorf("serve: record not closed after %s", closeTimeout)
	}
	err = errors.Join(err, s.remove(ctx))
	if err == nil && s.exit.Code != 0 {
		err = s.failure()
	}
	return s.events.head(), err
}

// remove ends serve. Idempotent.
func (s *server) remove(ctx context.Context) error {
	err := s.c.Remove(ctx)
	_ = s.stdin.Close()
	if err == nil {
		<-s.done
	}
	return err
}

// eventReader reads serve's lines as they come.
type eventReader struct {
	mu      sync.Mutex
	partial []byte
	last    *wire.RecordHead
	closed  bool
	ready   chan struct{}
	once    sync.Once
	on      func(wire.ServeEvent)
	mixed   bool // other lines than events are among them, and passed over
}

func newEventReader(on func(wire.ServeEvent)) *eventReader {
	return &eventReader{ready: make(chan struct{}), on: on}
}

func (e *eventReader) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.partial = append(e.partial, p...)
	for {
		at := bytes.IndexByte(e.partial, '\n')
		if at < 0 {
			break
		}
		if err := e.event(e.partial[:at]); err != nil {
			return 0, err
		}
		e.partial = append(e.partial[:0], e.partial[at+1:]...)
	}
	if len(e.partial) > wire.MaxLine {
		return 0, errors.New("serve's event is too long")
	}
	return len(p), nil
}

func (e *eventReader) event(b []byte) error {
	var ev wire.ServeEvent
	if err := strictjson.Unmarshal(b, &ev, strictjson.Limits{Size: wire.MaxLine}); err != nil {
		if e.mixed {
			return nil
		}
		return fmt.Errorf("serve's event: %w", err)
	}
	e.last = &ev.Record
	switch ev.Event {
	case "ready":
		e.once.Do(func() { close(e.ready) })
	case "closed":
		e.closed = true
	}
	e.on(ev)
	return nil
}

// head is the record's head as serve said it when it closed its record; nil if
// it never did.
func (e *eventReader) head() *wire.RecordHead {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		return nil
	}
	return e.last
}
