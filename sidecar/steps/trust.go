package steps

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/trust"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Trust answers or does what the operator asks about paths. It holds the
// ledger's keys and no product: content comes on standard input, or is what
// serve kept of it.
func Trust(ctx context.Context, layout Layout, stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReaderSize(stdin, 256<<10)
	var req wire.TrustRequest
	if err := request(in, &req); err != nil {
		return &RefusedError{Err: err}
	}
	if req.Schema != "proctor/trust/v1" {
		return &RefusedError{Err: fmt.Errorf("schema %q", req.Schema)}
	}
	o, err := openOperator(layout)
	if err != nil {
		return err
	}
	defer o.close()
	t := trusting{operator: o, req: req, in: in, reply: wire.TrustReply{Schema: "proctor/trust-reply/v1", Records: []wire.TrustRecord{}, References: []string{}}}
	act, ok := map[string]func(context.Context) error{
		"approve": t.record, "deny": t.record, "revoke": t.revoke, "show": t.show, "decide": t.decide, "list": t.list, "import": t.importAll,
	}[req.Act]
	if !ok {
		return &RefusedError{Err: fmt.Errorf("no such act: %q", req.Act)}
	}
	if err := act(ctx); err != nil {
		return err
	}
	if t.reply.Anchor, err = o.anchor(); err != nil {
		return err
	}
	return answer(stdout, t.reply)
}

// trusting is one TrustRequest.
type trusting struct {
	*operator
	req   wire.TrustRequest
	in    *bufio.Reader
	reply wire.TrustReply
}

func (t *trusting) path() (string, error) {
	if t.req.Path == nil || t.req.Path.Raw() == "" {
		return "", &RefusedError{Err: errors.New("no path is named")}
	}
	return t.req.Path.Raw(), nil
}

// content takes the bytes that the request is about, and holds them against the
// digest that the operator expects.
func (t *trusting) content() (content, error) {
	c, err := t.anyContent()
	if err != nil {
		return c, err
	}
	if t.req.Expect != "" && c.hex() != t.req.Expect {
		return c, &RefusedError{Err: fmt.Errorf("it changed since you looked: the content is sha256:%s, not sha256:%s", c.hex(), t.req.Expect)}
	}
	t.reply.SHA256, t.reply.Size = c.hex(), c.size
	if refs := audit.References(innermost(t.req.Path.Raw()), c.head); refs != nil {
		t.reply.References = refs
	}
	return c, nil
}

// innermost is a host's path without what lies above the directory that a tool,
// or the file itself, belongs to.
func innermost(path string) string {
	parts := strings.Split(path, "/")
	from := len(parts) - 1
	for i, p := range parts[:from] {
		if strings.HasPrefix(p, ".") {
			from = i
		}
	}
	return strings.Join(parts[from:], "/")
}

func (t *trusting) anyContent() (content, error) {
	if !t.req.Kept {
		return readContent(t.in)
	}
	if t.req.Expect == "" {
		return content{}, &RefusedError{Err: errors.New("while the session runs, a digest has to name what its agent showed: --expect-sha256")}
	}
	return readKept(t.layout, t.req.Expect)
}

// record approves or denies a content for a path.
func (t *trusting) record(ctx context.Context) error {
	path, err := t.path()
	if err != nil {
		return err
	}
	c, err := t.content()
	if err != nil {
		return err
	}
	p := ledger.NewPath(path)
	p.SHA256, p.Scope, p.Note, p.Expires = c.hex(), trust.Scope, t.req.Note, t.req.Expires
	kind := ledger.KindApprove
	p.Decision = ledger.Approved
	if t.req.Act == "deny" {
		kind, p.Decision = ledger.KindDeny, ledger.Denied
	}
	acts, err := t.act(ctx, ledger.Entry{Time: time.Now(), By: byline(t.req.By), Kind: kind, Path: &p})
	if err != nil {
		return err
	}
	t.reply.Records = append(t.reply.Records, recordOf(acts[0]))
	return nil
}

func recordOf(e ledger.Entry) wire.TrustRecord {
	return trustRecord(ledger.Record{PathAct: *e.Path, Time: e.Time, By: e.By, Seq: e.Seq})
}

func trustRecord(r ledger.Record) wire.TrustRecord {
	return wire.TrustRecord{
		Path: wire.NewPath(r.Raw()), SHA256: r.SHA256, Scope: r.Scope, Decision: string(r.Decision), Note: r.Note,
		Recorded: r.Time, By: r.By, Expires: r.Expires, Act: r.Seq,
	}
}

// revoke ends what a record granted or denied. Without one, nothing is recorded.
func (t *trusting) revoke(ctx context.Context) error {
	path, err := t.path()
	if err != nil {
		return err
	}
	_, err = t.update(ctx, func(s *ledger.State) ([]ledger.Entry, error) {
		r, ok := s.Decision(path)
		if !ok {
			return nil, nil
		}
		t.reply.Records = append(t.reply.Records, trustRecord(r))
		p := ledger.NewPath(path)
		return []ledger.Entry{{Time: time.Now(), By: byline(t.req.By), Kind: ledger.KindRevoke, Path: &p}}, nil
	})
	return err
}

// show answers with a path's record and, where it comes along, its content.
func (t *trusting) show(ctx context.Context) error {
	if err := t.decide(ctx); err != nil {
		return err
	}
	state, err := t.view()
	if err != nil {
		return err
	}
	if r, ok := state.Decision(t.req.Path.Raw()); ok {
		t.reply.Records = append(t.reply.Records, trustRecord(r))
	}
	return nil
}

// decide says how the path and content would be decided, and records nothing.
func (t *trusting) decide(context.Context) error {
	path, err := t.path()
	if err != nil {
		return err
	}
	state, err := t.view()
	if err != nil {
		return err
	}
	c, err := t.content()
	var refused *RefusedError
	if errors.As(err, &refused) && t.req.Expect == "" {
		t.reply.Decision = &wire.TrustDecision{Reason: string(trust.ReasonUnreadable), Note: refused.Error()}
		return nil
	}
	if err != nil {
		return err
	}
	t.reply.Head = c.head
	d := wireDecision(trust.Decide(state, path, c.sum, time.Now()))
	t.reply.Decision = &d
	return nil
}

func wireDecision(d trust.Decision) wire.TrustDecision {
	w := wire.TrustDecision{Allowed: d.Allowed, Reason: string(d.Reason), Note: d.Note, Act: d.Act}
	if !d.Since.IsZero() {
		since := d.Since
		w.Since = &since
	}
	return w
}

func (t *trusting) list(context.Context) error {
	state, err := t.view()
	if err != nil {
		return err
	}
	for _, r := range state.Decisions() {
		t.reply.Records = append(t.reply.Records, trustRecord(r))
	}
	return nil
}

// importAll enters the records of an exchange file, all or none. A live record
// that says something else is not replaced unless the operator says so: an import
// must not turn a denial into an approval unseen.
func (t *trusting) importAll(ctx context.Context) error {
	data, err := io.ReadAll(io.LimitReader(t.in, trust.MaxExchange+1))
	if err != nil {
		return err
	}
	x, err := trust.ParseExchange(data)
	if err != nil {
		return &RefusedError{Err: err}
	}
	acts, err := t.update(ctx, func(s *ledger.State) ([]ledger.Entry, error) {
		return t.imports(s, x)
	})
	for _, e := range acts {
		t.reply.Records = append(t.reply.Records, recordOf(e))
	}
	return err
}

func (t *trusting) imports(s *ledger.State, x trust.Exchange) ([]ledger.Entry, error) {
	var acts []ledger.Entry
	var problems []error
	for _, r := range x.Records {
		e := r.Act(byline(t.req.By), time.Now())
		live, ok := s.Decision(e.Path.Raw())
		switch {
		case ok && live.SHA256 == e.Path.SHA256 && live.Decision == e.Path.Decision:
			t.reply.Skipped++
			continue
		case ok && !t.req.Replace:
			problems = append(problems, fmt.Errorf("%q is recorded already, as %s sha256:%s: --replace", e.Path.Raw(), live.Decision, live.SHA256))
		}
		acts = append(acts, e)
	}
	return acts, errors.Join(problems...)
}

// What serve keeps of refused contents, in the session's part.
const (
	maxKept      = door.MaxContent
	maxKeptSize  = 64 << 20 // of all of them
	maxKeptFiles = 1000
)

func keptFile(sha256 string) string { return "refused-" + sha256 }
