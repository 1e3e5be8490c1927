package launch

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Trust asks the supervisor what the operator wants to know or do about paths.
// Where the request is about a content, it follows as a wire.Content and its
// bytes; nil is none.
func (l *Launcher) Trust(ctx context.Context, req wire.TrustRequest, content io.Reader) (wire.TrustReply, error) {
	return l.trust(ctx, req, content, "")
}

// TrustSession is Trust about a content that a session's agent made: what its
// stage holds, or, while the agent still runs, what it showed to serve.
func (l *Launcher) TrustSession(ctx context.Context, id string, req wire.TrustRequest) (wire.TrustReply, error) {
	host, err := l.cfg.Home.Lock(ctx, id)
	if errors.Is(err, home.ErrBusy) {
		req.Kept = true
		return l.trust(ctx, req, nil, id)
	}
	if err != nil {
		return wire.TrustReply{}, err
	}
	defer func() { _ = host.Unlock() }()
	product, path := string(host.State.Product), req.Path.Raw()
	rel, ok := strings.CutPrefix(path, strings.TrimSuffix(product, "/")+"/")
	if !ok {
		return wire.TrustReply{}, fmt.Errorf("%s is not in the session's product, %s", path, product)
	}
	if _, err := os.Lstat(host.StageParent()); err != nil {
		return wire.TrustReply{}, fmt.Errorf("session %s: its copy of the product was removed", id)
	}
	users, err := l.users(ctx, host.Stage())
	if err != nil {
		return wire.TrustReply{}, err
	}
	if len(users) > 0 {
		return wire.TrustReply{}, fmt.Errorf("session %s: %s still uses the stage", id, users[0])
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return wire.TrustReply{}, err
	}
	defer func() { _ = pr.Close() }()
	spec := l.spec(id, sandbox.RoleRead, []string{"content", "--path-base64", base64.StdEncoding.EncodeToString([]byte(rel)), "--", product},
		sandbox.Mount{Kind: sandbox.MountBind, Source: host.Stage(), Target: product, NoExec: l.cfg.Info.MountFlags})
	spec.Identity = l.identity(sandbox.RoleRead, host.State.Block)
	spec.Name += "-content"
	read := make(chan error, 1)
	go l.cfg.Crash.Guard(func() {
		_, err := l.runStep(ctx, spec, nil, pw)
		read <- errors.Join(err, pw.Close())
	})()
	reply, err := l.trust(ctx, req, pr, "")
	_ = pr.Close()
	if readErr := <-read; readErr != nil && err != nil {
		err = errors.Join(readErr, err)
	}
	return reply, err
}

// trust runs the verb and remembers the ledger that it answers with.
func (l *Launcher) trust(ctx context.Context, req wire.TrustRequest, content io.Reader, session string) (wire.TrustReply, error) {
	var reply wire.TrustReply
	head, err := line(req)
	if err != nil {
		return reply, err
	}
	in := io.Reader(bytes.NewReader(head))
	if content != nil {
		in = io.MultiReader(in, content)
	}
	needs := Needs{LedgerKeys: true, Ledger: readWrite, Session: session}
	if err := l.Verb(ctx, []string{"trust"}, needs, in, &reply); err != nil {
		return reply, err
	}
	return reply, l.cfg.Home.RaiseAnchor(l.place.Engine, reply.Anchor)
}

// Requests asks the supervisor about a session's requests, or answers one.
func (l *Launcher) Requests(ctx context.Context, id string, req wire.RequestsRequest) (wire.RequestsReply, error) {
	var reply wire.RequestsReply
	head, err := line(req)
	if err != nil {
		return reply, err
	}
	needs := Needs{LedgerKeys: true, Ledger: readWrite, Session: id}
	if err := l.Verb(ctx, []string{"requests"}, needs, bytes.NewReader(head), &reply); err != nil {
		return reply, err
	}
	return reply, l.cfg.Home.RaiseAnchor(l.place.Engine, reply.Anchor)
}
