package steps

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/record"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// AgentSocket is the agent's socket's name in the sockets' part.
const AgentSocket = "supervisor.sock"

// closeWord is the launcher's line that ends serve in order; the end of input
// without it means that the launcher is lost.
const closeWord = "close"

// Serve answers the agent until the launcher says close or is lost. It holds
// the record's subkey and public keys, and nothing that could sign a verdict.
func Serve(ctx context.Context, layout Layout, stdin io.Reader, stdout io.Writer) error {
	return serve(ctx, layout, stdin, stdout, nil)
}

// serve is Serve; with chain, the word of close comes from the reader.
func serve(ctx context.Context, layout Layout, stdin io.Reader, stdout io.Writer, chain *chainServing) error {
	part, err := safedir.Open(layout.Session, layout.Rules)
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	session, err := sessionForServe(part)
	if err != nil {
		return err
	}
	key, err := part.ReadFile(serveKeyFile, 4096)
	if err != nil {
		return err
	}
	rec, err := record.OpenAppend(layout.Session, layout.Rules, record.Config{Session: session.Session, Step: stepServe, Key: keys.NewSecret(key)}, nil)
	if err != nil {
		return err
	}
	s := &serving{session: session, record: rec, out: stdout}
	s.tally = newTally(s.row, s.event)
	in := bufio.NewReader(stdin)
	l, err := serveLedger(layout, part, session.Epoch)
	if err == nil {
		defer func() { _ = l.Close() }()
		s.desk, err = newDesk(part, session, l.View, s.tally)
	}
	if err == nil {
		s.doors, err = s.openDoors(layout, part, l.View, in)
	}
	if err == nil && chain != nil {
		err = chain.join(s, part)
	}
	if err == nil {
		err = s.run(ctx, layout, in)
	}
	return errors.Join(err, rec.Close())
}

// sessionForServe reads the session with the public keys that open left.
func sessionForServe(part *safedir.Dir) (Session, error) {
	b, err := part.ReadFile(chainFile, 8<<20)
	if err != nil {
		return Session{}, err
	}
	chain, err := keys.ParseChain(b)
	if err != nil {
		return Session{}, err
	}
	v, err := chain.Verifier(keys.DomainSession, 0)
	if err != nil {
		return Session{}, err
	}
	s, _, err := readSession(part, v)
	return s, err
}

type serving struct {
	session Session
	record  *record.Writer
	tally   *tally
	desk    *desk
	doors   []outsideDoor // to the outside
	inner   []outsideDoor // of a chain: to its checks and its reader
	line    *door.Line    // of a chain: the agent's
	mu      sync.Mutex    // orders the lines on out
	out     io.Writer
}

func (s *serving) run(ctx context.Context, layout Layout, stdin *bufio.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d, err := door.New(door.Config{
		Session: door.Session{Session: s.session.Session, Role: "agent", Step: "serve", Product: s.session.Request.Product.Raw()},
		Record:  s.row,
		Connected: func() {
			_ = s.event("agent-connected", nil)
		},
		Lost: func() {
			_ = s.row("agent-lost", struct{}{})
			_ = s.event("agent-lost", nil)
		},
		Desk: s.desk, Line: s.line,
	})
	if err != nil {
		return err
	}
	l, err := listen(filepath.Join(layout.Sockets, AgentSocket))
	if err != nil {
		return err
	}
	doors := append(append([]outsideDoor{}, s.doors...), s.inner...)
	more, err := listenAt(layout.Sockets, doors)
	if err != nil {
		return err
	}
	numbers, err := net.Listen("unix", filepath.Join(layout.Session, metricsSocket))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if _, err := s.record.Phase("ready", struct{}{}); err != nil {
		return err
	}
	ended := make(chan error, 3+len(more))
	together := func(run func(context.Context) error) { // one that ends, ends the other
		defer cancel()
		ended <- run(ctx)
	}
	go together(func(ctx context.Context) error { return d.Serve(ctx, l) })
	go together(s.record.Run)
	go together(func(ctx context.Context) error { return s.tally.metrics.Serve(ctx, numbers) })
	for i, l := range more {
		go together(func(ctx context.Context) error { return doors[i].serve(ctx, l) })
	}
	if err := s.event("ready", nil); err != nil {
		return err
	}
	reason := make(chan string, 1)
	go func() { reason <- awaitClose(stdin) }()
	why := "failed, or was terminated"
	select {
	case why = <-reason:
	case <-ctx.Done():
	}
	cancel()
	var errs []error
	for range cap(ended) {
		errs = append(errs, <-ended)
	}
	return errors.Join(append(errs, s.finish(why))...)
}

func (s *serving) row(kind string, data any) error {
	_, err := s.record.Append(kind, data)
	return err
}

// finish closes the record and tells its head.
func (s *serving) finish(why string) error {
	var doors *wire.DoorCounts
	if len(s.doors) > 0 {
		all := s.tally.all()
		doors = &all
		_ = s.event("doors", all)
	}
	if _, err := s.record.Phase("closed", struct {
		Reason string           `json:"reason"`
		Doors  *wire.DoorCounts `json:"doors,omitempty"`
	}{why, doors}); err != nil {
		return err
	}
	if why != closeWord {
		return fmt.Errorf("serve ended early: %s", why)
	}
	return s.event("closed", nil)
}

// event tells the launcher; a launcher that went away is noticed elsewhere.
func (s *serving) event(name string, data any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := wire.ServeEvent{Event: name, Time: time.Now().UTC(), Record: wireHead(s.record.Head())}
	if data != nil {
		b, err := strictjson.Marshal(data)
		if err != nil {
			return err
		}
		e.Data = b
	}
	return answer(s.out, e)
}

// awaitClose returns closeWord, or that the launcher is lost.
func awaitClose(stdin *bufio.Reader) string {
	line, err := stdin.ReadSlice('\n')
	if err == nil && string(line) == closeWord+"\n" {
		return closeWord
	}
	return "the launcher is lost"
}

// listen makes the socket. Whoever can reach it may connect: the directory that
// holds it is mounted into one role alone, and that is the role's identity.
func listen(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), l.Close())
	}
	return l, nil
}
