package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/proctor-project/proctor/sandbox/inside"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Run serves one client over the two streams until it goes away or ctx ends.
func Run(ctx context.Context, socket string, in io.ReadCloser, out io.WriteCloser) error {
	err := New(socket).Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		return fmt.Errorf("mcp: %w", err)
	}
	return nil
}

// New makes the server; it asks the supervisor at the socket.
func New(socket string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "proctor", Title: "proctor: ask the supervisor", Version: "1"}, &mcp.ServerOptions{
		Instructions: "You run under a supervisor. What you may use (file contents, packages, hosts) is the operator's decision: ask with these tools. Nothing here can approve anything.",
	})
	a := asker{socket}
	mcp.AddTool(s, tool("session", "Which session this is, and of which product", readOnly), a.session)
	mcp.AddTool(s, tool("decide_file", "Whether the operator approved the content that a file has now", readOnly), a.decideFile)
	mcp.AddTool(s, tool("request_file", "Ask the operator to approve the content that a file has now", asking), a.requestFile)
	mcp.AddTool(s, tool("request_package", "Ask the operator for a package: name@version", asking), a.requestPackage)
	mcp.AddTool(s, tool("request_host", "Ask the operator for a host: name:port", asking), a.requestHost)
	mcp.AddTool(s, tool("wait", "Wait for the operator's answer to a request", readOnly), a.wait)
	mcp.AddTool(s, tool("requests", "All requests of this session, with their answers", readOnly), a.requests)
	return s
}

type effect int

const (
	readOnly effect = iota
	asking          // the operator sees it
)

func tool(name, description string, e effect) *mcp.Tool {
	no := false
	return &mcp.Tool{Name: name, Description: description, Annotations: &mcp.ToolAnnotations{
		ReadOnlyHint: e == readOnly, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no,
	}}
}

type asker struct{ socket string }

type none struct{}

type fileIn struct {
	Path string `json:"path" jsonschema:"the file's path, absolute or relative to the working directory"`
}

type fileRequestIn struct {
	fileIn
	Reason string `json:"reason,omitempty" jsonschema:"why, for the operator; at most 1 KiB"`
}

type packageIn struct {
	Package string `json:"package" jsonschema:"name@version, one exact version"`
	Reason  string `json:"reason,omitempty" jsonschema:"why, for the operator; at most 1 KiB"`
}

type hostIn struct {
	Host   string `json:"host" jsonschema:"name:port"`
	Reason string `json:"reason,omitempty" jsonschema:"why, for the operator; at most 1 KiB"`
}

type waitIn struct {
	ID      string `json:"id" jsonschema:"the request's id, such as r-1"`
	Seconds int    `json:"seconds,omitempty" jsonschema:"how long to wait at most, 0 to 600"`
}

// maxWait bounds how long one call waits, in seconds.
const maxWait = 600

func (a asker) session(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
	s, _, err := inside.Ask(ctx, a.socket)
	return said(s, err)
}

func (a asker) decideFile(ctx context.Context, _ *mcp.CallToolRequest, in fileIn) (*mcp.CallToolResult, any, error) {
	path, err := filepath.Abs(in.Path)
	if err != nil {
		return nil, nil, err
	}
	d, err := inside.DecideFile(ctx, a.socket, path)
	return said(d, err)
}

func (a asker) requestFile(ctx context.Context, _ *mcp.CallToolRequest, in fileRequestIn) (*mcp.CallToolResult, any, error) {
	path, err := filepath.Abs(in.Path)
	if err != nil {
		return nil, nil, err
	}
	d, err := inside.DecideFile(ctx, a.socket, path)
	if err != nil {
		return nil, nil, err
	}
	if d.Allowed {
		return said(d, nil)
	}
	return a.request(ctx, d.Subject, in.Reason)
}

func (a asker) requestPackage(ctx context.Context, _ *mcp.CallToolRequest, in packageIn) (*mcp.CallToolResult, any, error) {
	return a.request(ctx, wire.Subject{Kind: wire.SubjectPackage, Package: in.Package}, in.Reason)
}

func (a asker) requestHost(ctx context.Context, _ *mcp.CallToolRequest, in hostIn) (*mcp.CallToolResult, any, error) {
	return a.request(ctx, wire.Subject{Kind: wire.SubjectHost, Host: in.Host}, in.Reason)
}

func (a asker) request(ctx context.Context, s wire.Subject, reason string) (*mcp.CallToolResult, any, error) {
	r, err := inside.Request(ctx, a.socket, s, reason)
	return said(r, err)
}

func (a asker) wait(ctx context.Context, _ *mcp.CallToolRequest, in waitIn) (*mcp.CallToolResult, any, error) {
	if in.Seconds < 0 || in.Seconds > maxWait {
		return nil, nil, fmt.Errorf("seconds: %d is not from 0 to %d", in.Seconds, maxWait)
	}
	r, err := inside.Answer(ctx, a.socket, in.ID, time.Duration(in.Seconds)*time.Second)
	return said(r, err)
}

func (a asker) requests(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
	all, err := inside.Requests(ctx, a.socket)
	if all == nil {
		all = []wire.Request{}
	}
	return said(struct {
		Requests []wire.Request `json:"requests"`
	}{all}, err)
}

// said is the supervisor's answer as text and as a document. An error becomes a
// tool's error, which the model sees.
func said(v any, err error) (*mcp.CallToolResult, any, error) {
	if err != nil {
		return nil, nil, err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(b)}}, StructuredContent: json.RawMessage(b)}, nil, nil
}
