package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/proctor-project/proctor/sandbox/inside/mcpserver"
	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// desk is a supervisor's that approves nothing by itself.
type desk struct {
	mu  sync.Mutex
	all []wire.Request
}

func (d *desk) DecideFile(path string, content []byte) wire.Decided {
	p := wire.NewPath(path)
	return wire.Decided{
		Schema: "proctor/decision/v1", Allowed: string(content) == "good",
		Subject: wire.Subject{Kind: wire.SubjectFile, Path: &p, SHA256: strings.Repeat("a", 64)}, Reason: "no_record",
	}
}

func (d *desk) Ask(s wire.Subject, text string) (wire.Request, bool, error) {
	if s.Host == "full:1" {
		return wire.Request{}, false, errors.New("too many requests")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r := wire.Request{Schema: "proctor/request/v1", ID: "r-1", Subject: s, SHA256: s.Digest(), Text: text, State: wire.RequestWaiting}
	d.all = append(d.all, r)
	return r, true, nil
}

func (d *desk) Request(id string) (wire.Request, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.all {
		if r.ID == id {
			return r, true
		}
	}
	return wire.Request{}, false
}

func (d *desk) Requests() []wire.Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]wire.Request{}, d.all...)
}

func (d *desk) answer(state, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[0].State, d.all[0].Answer = state, text
}

// serve runs a door over the desk and returns its socket.
func serve(t *testing.T, d *desk) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // short: a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	one, err := door.New(door.Config{
		Session: door.Session{Session: "aaaaaaaaaaaa", Role: "agent", Step: "serve", Product: "/p"},
		Record:  func(string, any) error { return nil }, Connected: func() {}, Lost: func() {}, Desk: d,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- one.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return socket
}

func connect(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// call returns a tool's answer as text, and whether it is an error.
func call(t *testing.T, s *mcp.ClientSession, name string, args any) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return err.Error(), true
	}
	text, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("%s: %T", name, res.Content[0])
	}
	if !res.IsError {
		b, err := json.Marshal(res.StructuredContent)
		if err != nil || len(b) < 3 {
			t.Errorf("%s: structured content %s, %v", name, b, err)
		}
	}
	return text.Text, res.IsError
}

// TestMCPClient: the SDK's own client reads the session, asks, and waits for the
// operator's answer.
func TestMCPClient(t *testing.T) {
	d := &desk{}
	client, server := mcp.NewInMemoryTransports()
	s := mcpserver.New(serve(t, d))
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- s.Run(ctx, server) }()
	t.Cleanup(func() { cancel(); <-ended })
	session := connect(t, client)

	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		if strings.Contains(tool.Name, "approve") || strings.Contains(tool.Name, "allow") {
			t.Errorf("a tool %q", tool.Name)
		}
	}
	if len(tools.Tools) != 7 {
		t.Errorf("%d tools", len(tools.Tools))
	}
	file := filepath.Join(t.TempDir(), ".envrc")
	if err := os.WriteFile(file, []byte("bad"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool  string
		args  any
		want  string
		error bool
	}{
		{"session", struct{}{}, `"product":"/p"`, false},
		{"decide_file", map[string]any{"path": file}, `"allowed":false`, false},
		{"decide_file", map[string]any{"path": file + "x"}, "no such file", true},
		{"requests", struct{}{}, `"requests":[]`, false},
		{"request_host", map[string]any{"host": "full:1"}, "too many requests", true},
		{"request_package", map[string]any{"package": "left-pad@1.3.1", "reason": "need padding"}, `"id":"r-1"`, false},
		{"wait", map[string]any{"id": "r-1"}, `"state":"waiting"`, false},
		{"wait", map[string]any{"id": "r-1", "seconds": -1}, "is not from 0 to 600", true},
		{"wait", map[string]any{"id": "r-9"}, "", true},
		{"requests", struct{}{}, `"id":"r-1"`, false},
		{"approve", struct{}{}, "", true},
	} {
		if got, isError := call(t, session, c.tool, c.args); isError != c.error || !strings.Contains(got, c.want) {
			t.Errorf("%s %v: %s (error: %v)", c.tool, c.args, got, isError)
		}
	}
	waited := make(chan string, 1)
	go func() {
		got, _ := call(t, session, "wait", map[string]any{"id": "r-1", "seconds": 15})
		waited <- got
	}()
	d.answer(wire.RequestDenied, "use padStart")
	if got := <-waited; !strings.Contains(got, `"state":"denied"`) || !strings.Contains(got, "use padStart") {
		t.Errorf("the answer is %s", got)
	}
}

// TestMCPProgram: the program itself speaks MCP on its standard streams, says
// nothing else there, and ends with its client.
func TestMCPProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "proctor-agent")
	build := exec.Command("go", "build", "-o", program, "../../../cmd/proctor-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(program, "mcp", "--supervisor", serve(t, &desk{}))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	session := connect(t, &mcp.CommandTransport{Command: cmd})
	if got, isError := call(t, session, "session", struct{}{}); isError || !strings.Contains(got, "aaaaaaaaaaaa") {
		t.Errorf("%s", got)
	}
	if err := session.Close(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v, it said %q", err, stderr.String())
	}
}
