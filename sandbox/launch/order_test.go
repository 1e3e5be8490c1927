package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/home"
)

// scripted is an engine whose containers answer what the real steps would. It
// notes when each one is made, started and gone; it judges nothing.
type scripted struct {
	mu    sync.Mutex
	alive map[string]sandbox.Spec
	wrong []string // what was alive beside what
	specs []sandbox.Spec
	users []string
}

func (e *scripted) Name() string                                        { return "local" }
func (e *scripted) Close() error                                        { return nil }
func (e *scripted) Probe(context.Context, string) (sandbox.Info, error) { return sandbox.Info{}, nil }

func (e *scripted) Users(context.Context, string) ([]string, error)             { return e.users, nil }
func (e *scripted) Sweep(context.Context, string) ([]string, error)             { return nil, nil }
func (e *scripted) RemovePart(context.Context, sandbox.Part, string) error      { return nil }
func (e *scripted) HasPart(context.Context, sandbox.Part, string) (bool, error) { return false, nil }

func (e *scripted) MakePart(context.Context, sandbox.Part, string, sandbox.Identity) error {
	return nil
}

func (e *scripted) Resolve(_ context.Context, i sandbox.Image) (sandbox.Image, error) {
	i.Digest = "sha256:" + strings.Repeat("0", 64)
	return i, nil
}

func (e *scripted) Part(p sandbox.Part, session string) sandbox.Mount {
	return sandbox.Mount{Kind: sandbox.MountBind, Source: "/parts/" + string(p) + session}
}

func holdsRootKey(s sandbox.Spec) bool {
	for _, m := range s.Mounts {
		if m.Target == sandbox.PartRootKeys.Target() {
			return true
		}
	}
	return false
}

func (e *scripted) Create(_ context.Context, spec sandbox.Spec, streams sandbox.Streams) (sandbox.Container, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, other := range e.alive {
		if holdsRootKey(spec) && other.Role.Hostile() || holdsRootKey(other) && spec.Role.Hostile() {
			e.wrong = append(e.wrong, spec.Name+" beside "+other.Name)
		}
	}
	e.alive[spec.Name] = spec
	e.specs = append(e.specs, spec)
	if streams.Stdin != nil { // a container has descriptors of its own
		fd, err := unix.Dup(int(streams.Stdin.Fd()))
		if err != nil {
			return nil, err
		}
		streams.Stdin = os.NewFile(uintptr(fd), streams.Stdin.Name())
	}
	return &scriptedContainer{e: e, spec: spec, streams: streams, ended: make(chan struct{})}, nil
}

type scriptedContainer struct {
	e       *scripted
	spec    sandbox.Spec
	streams sandbox.Streams
	ended   chan struct{}
}

func (c *scriptedContainer) Name() string { return c.spec.Name }
func (c *scriptedContainer) Report() sandbox.Report {
	return sandbox.Report{Name: c.spec.Name, Role: c.spec.Role}
}

func (c *scriptedContainer) Start(context.Context) error {
	go func() {
		defer close(c.ended)
		c.answer()
		if c.streams.Stdin != nil {
			_ = c.streams.Stdin.Close()
		}
	}()
	return nil
}

// answer is what the step says. Errors of the pipes are the test's own: a wrong
// answer fails the session.
func (c *scriptedContainer) answer() {
	out := c.streams.Stdout
	say := func(format string, a ...any) { _, _ = fmt.Fprintf(out, format+"\n", a...) }
	hash := strings.Repeat("0", 64)
	anchor := `{"control_id":"c","count":1,"hash":"` + hash + `","chain":{}}`
	switch {
	case c.spec.Role == sandbox.RoleOpen:
		_, _ = io.Copy(io.Discard, c.streams.Stdin)
		say(`{"schema":"proctor/open-reply/v1","session_digest":"%s","policy_digest":"%s","baseline":"%s","record":{"count":1,"mac":""},"anchor":%s,"first_use":false,"root_entries":0}`, hash, hash, hash, anchor)
	case c.spec.Role == sandbox.RoleServe:
		say(`{"event":"ready","time":"2026-11-30T12:00:00Z","record":{"count":1,"mac":""}}`)
		_, _ = io.Copy(io.Discard, io.LimitReader(c.streams.Stdin, int64(len("close\n"))))
		say(`{"event":"closed","time":"2026-11-30T12:00:00Z","record":{"count":2,"mac":""}}`)
	case c.spec.Role == sandbox.RoleRead && strings.HasSuffix(c.spec.Name, "before"):
		say(`{"schema":"proctor/read-digest/v1","tree":"%s","entries":0,"root_entries":0}`, hash)
	case c.spec.Role == sandbox.RoleSeal:
		_, _ = io.Copy(io.Discard, c.streams.Stdin)
		say(`{"schema":"proctor/seal-reply/v1","verdict":"PASS","reasons":[],"seal":{},"digest":"%s","number":1,"manifest_bytes":0,"entries":0,"anchor":%s}`, hash, strings.Replace(anchor, `"count":1`, `"count":2`, 1))
	}
}

func (c *scriptedContainer) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-c.ended:
		return sandbox.Exit{Started: time.Now(), Finished: time.Now()}, nil
	case <-ctx.Done():
		return sandbox.Exit{}, ctx.Err()
	}
}

func (c *scriptedContainer) Stop(context.Context) error { return nil }
func (c *scriptedContainer) Kill(context.Context) error { return nil }
func (c *scriptedContainer) Remove(context.Context) error {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	delete(c.e.alive, c.spec.Name)
	return nil
}

type quietProgress struct{}

func (quietProgress) Begin(string, string) {}
func (quietProgress) Live(string)          {}
func (quietProgress) End(string, string)   {}
func (quietProgress) Count(string)         {}
func (quietProgress) Alert(string)         {}
func (quietProgress) Note(string)          {}

// scriptedLauncher is a launcher over a scripted engine, with a home of its own.
func scriptedLauncher(t *testing.T) (*scripted, *Launcher, Plan) {
	t.Helper()
	h, err := home.Open(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.Make(), h.SetConfig(home.Config{Schema: "proctor/home/v1", Engine: "local", Supervisor: 2, SupervisorRoot: 1, FirstID: 1, IDs: 64})); err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "proctor-agent"), []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	e := &scripted{alive: map[string]sandbox.Spec{}}
	l, err := New(t.Context(), Config{
		Engine: e, Home: h, Tools: tools,
		InUserNS: func(_ context.Context, c Child) error {
			if c.Argv[1] == "unstage" {
				return nil
			}
			_, err := io.WriteString(c.Stdout, "baseline")
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := Process{Argv: []string{"true"}, Timeout: time.Minute, Output: 1 << 20}
	return e, l, Plan{
		Product: t.TempDir(), Agent: p, AuditTimeout: time.Minute,
		Checks: []Check{{Process: p, Name: "one", Dir: "."}, {Process: p, Name: "two", Dir: "."}},
	}
}

// TestRootKeyIsNeverBesideTheAgent is invariant 2 for every engine: the order
// of a session's containers is the launcher's, whatever runs them.
func TestRootKeyIsNeverBesideTheAgent(t *testing.T) {
	e, l, plan := scriptedLauncher(t)
	r, err := l.Run(t.Context(), plan, quietProgress{})
	if err != nil || r.Verdict != "PASS" {
		t.Fatalf("%+v, %v", r, err)
	}
	if len(e.wrong) > 0 {
		t.Errorf("alive together: %q", e.wrong)
	}
	if len(e.alive) > 0 {
		t.Errorf("left: %v", e.alive)
	}
	roles := map[sandbox.Role]int{}
	for _, s := range e.specs {
		roles[s.Role]++
		if holdsRootKey(s) != (s.Role == sandbox.RoleOpen || s.Role == sandbox.RoleSeal) {
			t.Errorf("%s: root key mounted: %v", s.Name, holdsRootKey(s))
		}
	}
	// Without checks seal's container is made earlier: when the agent is gone.
	e, l, plan = scriptedLauncher(t)
	plan.Checks = nil
	if r, err := l.Run(t.Context(), plan, quietProgress{}); err != nil || r.Verdict != "PASS" || len(e.wrong) > 0 || len(e.alive) > 0 {
		t.Errorf("without checks: %+v, %v; alive together: %q; left: %v", r, err, e.wrong, e.alive)
	}
	if roles[sandbox.RoleAgent] != 1 || roles[sandbox.RoleCheck] != 2 || roles[sandbox.RoleSeal] != 1 || roles[sandbox.RoleRead] != 2 {
		t.Errorf("containers: %v", roles)
	}
}

// TestNobodySharesWithTheAgent is invariants 1 to 3 over the specs: what agents,
// checks and readers get, and what nobody else does.
func TestNobodySharesWithTheAgent(t *testing.T) {
	e, l, plan := scriptedLauncher(t)
	if _, err := l.Run(t.Context(), plan, quietProgress{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range e.specs {
		product := 0
		for _, m := range s.Mounts {
			if m.Target == plan.Product {
				product++
				if m.Source == plan.Product {
					t.Errorf("%s: the original is mounted", s.Name)
				}
				if writable := m.Writable && m.Kind == sandbox.MountBind; writable != (s.Role == sandbox.RoleAgent) {
					t.Errorf("%s: the stage is writable: %v", s.Name, writable)
				}
			}
			if untrusted(s) && (strings.HasPrefix(m.Target, "/keys") || strings.HasPrefix(m.Target, "/control")) {
				t.Errorf("%s has %s", s.Name, m.Target)
			}
			if s.Role.Hostile() && m.Target == sandbox.PartSockets.Target() && m.Writable {
				t.Errorf("%s can write the sockets", s.Name)
			}
		}
		if (product == 1) != untrusted(s) {
			t.Errorf("%s: %d mounts of the product", s.Name, product)
		}
		if s.Network != sandbox.NetworkNone {
			t.Errorf("%s has a network", s.Name)
		}
		for _, env := range s.Env {
			if strings.Contains(env, "/keys") || strings.Contains(env, "/control") {
				t.Errorf("%s: environment %q", s.Name, env)
			}
		}
	}
}

func untrusted(s sandbox.Spec) bool { return s.Role.Hostile() || s.Role == sandbox.RoleRead }

// TestOneWriterMoreIsAProblem: somebody still has the stage when the agent
// is gone. No check runs, and the seal step is told who.
func TestOneWriterMoreIsAProblem(t *testing.T) {
	e, l, plan := scriptedLauncher(t)
	e.users = []string{"container db (4fa1c2)"}
	r, err := l.Run(t.Context(), plan, quietProgress{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "container db (4fa1c2) can still write the product") {
		t.Errorf("problems: %q", r.Problems)
	}
	for _, s := range e.specs {
		if s.Role == sandbox.RoleCheck {
			t.Errorf("%s ran", s.Name)
		}
	}
}
