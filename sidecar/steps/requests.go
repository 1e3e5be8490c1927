package steps

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/hosts"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/record"
	"github.com/proctor-project/proctor/sidecar/requests"
	"github.com/proctor-project/proctor/sidecar/trust"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Requests answers with a session's requests, or answers one. What an approval
// grants and the answer itself are one act of the ledger, or none.
func Requests(ctx context.Context, layout Layout, stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	var req wire.RequestsRequest
	if err := request(in, &req); err != nil {
		return &RefusedError{Err: err}
	}
	if req.Schema != "proctor/requests/v1" {
		return &RefusedError{Err: fmt.Errorf("schema %q", req.Schema)}
	}
	o, err := openOperator(layout)
	if err != nil {
		return err
	}
	defer o.close()
	a := answering{operator: o, req: req, reply: wire.RequestsReply{
		Schema: "proctor/requests-reply/v1", Requests: []wire.RequestStatus{}, Records: []wire.TrustRecord{}, References: []string{}, Acts: []uint64{},
	}}
	if err := a.do(ctx); err != nil {
		return err
	}
	if a.reply.Anchor, err = o.anchor(); err != nil {
		return err
	}
	return answer(stdout, a.reply)
}

type answering struct {
	*operator
	req     wire.RequestsRequest
	session string
	state   *ledger.State
	reply   wire.RequestsReply
}

func (a *answering) do(ctx context.Context) error {
	all, err := a.read()
	if err != nil {
		return err
	}
	if a.req.Act == "list" {
		a.reply.Requests = all
		return nil
	}
	for _, r := range all {
		if r.ID == a.req.ID {
			a.reply.Requests = append(a.reply.Requests, r)
		}
	}
	if len(a.reply.Requests) != 1 {
		return &RefusedError{Err: fmt.Errorf("the session has no request %q", a.req.ID)}
	}
	switch a.req.Act {
	case "show":
		return a.show()
	case "approve", "deny":
		return a.decide(ctx)
	}
	return &RefusedError{Err: fmt.Errorf("no such act: %q", a.req.Act)}
}

// read takes the requests from the session's record, and their answers from the
// ledger.
func (a *answering) read() ([]wire.RequestStatus, error) {
	var err error
	if a.state, err = a.view(); err != nil {
		return nil, err
	}
	if a.session, err = a.whose(); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(a.layout.Session, record.FileName))
	if err != nil {
		return nil, &RefusedError{Err: errors.New("the session has no record any more")}
	}
	defer func() { _ = f.Close() }()
	asked, refused, err := a.rows(f)
	if err != nil {
		return nil, err
	}
	all := []wire.RequestStatus{}
	for _, r := range requests.Latest(asked) {
		status := wire.RequestStatus{Request: requests.Answered(a.state, a.session, r)}
		if n := refused[r.Subject.Digest()]; n != nil {
			status.Refused, status.First, status.Last = n.Refused, n.First, n.Last
		}
		all = append(all, status)
	}
	return all, nil
}

// whose is the session that the part belongs to, by its signed file.
func (a *answering) whose() (string, error) {
	part, err := safedir.Open(a.layout.Session, a.layout.Rules)
	if err != nil {
		return "", err
	}
	defer func() { _ = part.Close() }()
	v, err := a.keys.Chain().Verifier(keys.DomainSession, 0)
	if err != nil {
		return "", err
	}
	s, _, err := readSession(part, v)
	if err != nil {
		return "", &RefusedError{Err: err}
	}
	return s.Session, nil
}

// rows takes what is about requests out of a record: as it stands there, without
// a key to verify it with. What is approved in the end is not taken from it: a
// content is hashed again, an identity resolved again.
func (a *answering) rows(f io.Reader) ([]wire.Request, map[string]*wire.RequestStatus, error) {
	var asked []wire.Request
	refused := map[string]*wire.RequestStatus{}
	in := bufio.NewReaderSize(f, record.MaxLine)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return asked, refused, nil // a last line that is being written
		}
		if err != nil {
			return nil, nil, err
		}
		payload, _, _ := bytes.Cut(line, []byte("\t"))
		var row record.Row
		if err := strictjson.Unmarshal(payload, &row, strictjson.Limits{Size: record.MaxLine}); err != nil {
			continue // the audit says what is wrong with it
		}
		switch row.Kind {
		case requests.RowKind:
			var r wire.Request
			if strictjson.Unmarshal(row.Data, &r, strictjson.Limits{}) == nil {
				asked = append(asked, r)
			}
		case "decided":
			var d wire.Decided
			if strictjson.Unmarshal(row.Data, &d, strictjson.Limits{}) == nil && !d.Allowed {
				count(refused, d.Subject.Digest(), row.Time)
			}
		}
	}
}

func count(refused map[string]*wire.RequestStatus, key string, at time.Time) {
	n := refused[key]
	if n == nil {
		n = &wire.RequestStatus{First: at}
		refused[key] = n
	}
	n.Refused, n.Last = n.Refused+1, at
}

// show adds what helps to decide.
func (a *answering) show() error {
	r := a.reply.Requests[0]
	if r.Subject.Kind != wire.SubjectFile {
		return nil
	}
	path := r.Subject.Path.Raw()
	if live, ok := a.state.Decision(path); ok {
		a.reply.Records = append(a.reply.Records, trustRecord(live))
	}
	c, err := readKept(a.layout, r.Subject.SHA256)
	if err != nil {
		return err
	}
	a.reply.Size, a.reply.Head = c.size, c.head
	if refs := audit.References(innermost(path), c.head); refs != nil {
		a.reply.References = refs
	}
	return nil
}

// decide answers a request that is still the one that was shown.
func (a *answering) decide(ctx context.Context) error {
	r := a.reply.Requests[0]
	if a.req.Expect != r.SHA256 {
		return &RefusedError{Err: fmt.Errorf("request %s changed since you looked, or was never shown: it is %s now", r.ID, r.SHA256)}
	}
	now := time.Now()
	act := ledger.AnswerAct{Session: a.session, Request: r.ID, SHA256: r.SHA256, Decision: ledger.Denied, Reason: a.req.Reason}
	var acts []ledger.Entry
	if a.req.Act == "approve" {
		act.Decision = ledger.Approved
		var err error
		if acts, err = a.grants(r.Subject, now); err != nil {
			return err
		}
	}
	acts = append(acts, ledger.Entry{Time: now, By: byline(a.req.By), Kind: ledger.KindAnswer, Answer: &act})
	done, err := a.update(ctx, func(s *ledger.State) ([]ledger.Entry, error) {
		if a.req.Act == "deny" {
			return acts, nil
		}
		return acts, errors.Join(stillDenied(s, a.req.Packages, r.Subject.Package), deniedHost(s, r.Subject.Host))
	})
	for _, e := range done {
		a.reply.Acts = append(a.reply.Acts, e.Seq)
		if e.Path != nil {
			a.reply.Records = append(a.reply.Records, recordOf(e))
		}
	}
	return err
}

// grants are the acts that give what is asked for.
func (a *answering) grants(s wire.Subject, now time.Time) ([]ledger.Entry, error) {
	approve := ledger.Entry{Time: now, By: byline(a.req.By), Kind: ledger.KindApprove}
	switch s.Kind {
	case wire.SubjectFile:
		c, err := readKept(a.layout, s.SHA256)
		if err != nil {
			return nil, err
		}
		p := ledger.NewPath(s.Path.Raw())
		p.SHA256, p.Scope, p.Decision, p.Note, p.Expires = c.hex(), trust.Scope, ledger.Approved, a.req.Reason, a.req.Expires
		approve.Path = &p
		return []ledger.Entry{approve}, nil
	case wire.SubjectHost:
		h, err := hosts.Parse(s.Host)
		if err != nil {
			return nil, &RefusedError{Err: err}
		}
		approve.Host = &ledger.HostAct{Host: h.Host(), Port: h.Port(), Decision: ledger.Approved, Note: a.req.Reason, Expires: a.req.Expires}
		return []ledger.Entry{approve}, nil
	}
	var acts []ledger.Entry
	asked := false
	for _, p := range a.req.Packages {
		e := approve
		e.Package = &ledger.PackageAct{
			Registry: p.Registry, Name: p.Name, Version: p.Version, Integrity: p.Integrity,
			Decision: ledger.Approved, Note: a.req.Reason, Expires: a.req.Expires,
		}
		acts = append(acts, e)
		asked = asked || p.Name+"@"+p.Version == s.Package
	}
	if !asked {
		return nil, &RefusedError{Err: fmt.Errorf("%s is not what the request resolves to", s.Package)}
	}
	return acts, nil
}

// deniedHost refuses to approve a host that a recorded denial covers: a request
// must not turn it into an approval unseen, and beside a pattern's denial the
// approval would grant nothing.
func deniedHost(s *ledger.State, host string) error {
	if host == "" {
		return nil
	}
	t, err := hosts.Parse(host)
	if err != nil {
		return err
	}
	for _, r := range s.Hosts() {
		p, err := hosts.NewPattern(r.Host, r.Port)
		if err != nil || r.Decision != ledger.Denied || !p.Matches(t) {
			continue
		}
		return fmt.Errorf("%s is denied by act %d; nothing was approved; proctor revoke-host %s takes that back", t, r.Seq, p)
	}
	return nil
}

// readKept takes a content that serve kept, and hashes it again.
func readKept(layout Layout, sum string) (content, error) {
	var c content
	var want [32]byte
	if err := parseSHA256(sum, &want); err != nil {
		return c, &RefusedError{Err: err}
	}
	part, err := safedir.Open(layout.Session, layout.Rules)
	if err != nil {
		return c, err
	}
	defer func() { _ = part.Close() }()
	b, err := part.ReadFile(keptFile(sum), maxKept)
	if err != nil {
		return c, &RefusedError{Err: fmt.Errorf("the session's agent showed no content sha256:%s, or it was not kept", sum)}
	}
	if c = contentOf(b); c.sum != want {
		return c, &RefusedError{Err: fmt.Errorf("what was kept as sha256:%s is sha256:%s", sum, c.hex())}
	}
	return c, nil
}
