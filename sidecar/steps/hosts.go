package steps

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/proctor-project/proctor/sidecar/hosts"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Hosts answers or does what the operator asks about hosts.
func Hosts(ctx context.Context, layout Layout, stdin io.Reader, stdout io.Writer) error {
	var req wire.HostsRequest
	if err := request(bufio.NewReader(stdin), &req); err != nil {
		return &RefusedError{Err: err}
	}
	if req.Schema != "proctor/hosts/v1" {
		return &RefusedError{Err: fmt.Errorf("schema %q", req.Schema)}
	}
	o, err := openOperator(layout)
	if err != nil {
		return err
	}
	defer o.close()
	reply := wire.HostsReply{Schema: "proctor/hosts-reply/v1", Records: []wire.HostRecord{}}
	switch req.Act {
	case "list":
		err = o.listHosts(&reply)
	case "approve", "deny", "revoke":
		err = o.decideHost(ctx, req, &reply)
	default:
		err = &RefusedError{Err: fmt.Errorf("no such act: %q", req.Act)}
	}
	if err != nil {
		return err
	}
	if reply.Anchor, err = o.anchor(); err != nil {
		return err
	}
	return answer(stdout, reply)
}

func (o *operator) listHosts(reply *wire.HostsReply) error {
	state, err := o.view()
	if err != nil {
		return err
	}
	for _, r := range state.Hosts() {
		reply.Records = append(reply.Records, hostRecord(r))
	}
	return nil
}

// decideHost records what is not recorded so already. A revoke answers with what
// it took back.
func (o *operator) decideHost(ctx context.Context, req wire.HostsRequest, reply *wire.HostsReply) error {
	p, err := hosts.NewPattern(req.Host, req.Port)
	if err != nil {
		return &RefusedError{Err: fmt.Errorf("host %q %w", req.Host, err)}
	}
	kind := map[string]ledger.Kind{"approve": ledger.KindApprove, "deny": ledger.KindDeny, "revoke": ledger.KindRevoke}[req.Act]
	act := ledger.HostAct{Host: p.Host(), Port: p.Port(), Note: req.Note, Expires: req.Expires}
	switch kind {
	case ledger.KindApprove:
		act.Decision = ledger.Approved
	case ledger.KindDeny:
		act.Decision = ledger.Denied
	}
	acted, err := o.update(ctx, func(s *ledger.State) ([]ledger.Entry, error) {
		have, ok := s.Host(act.Host, act.Port)
		switch {
		case kind == ledger.KindRevoke && !ok:
			return nil, nil
		case kind == ledger.KindRevoke:
			reply.Records = append(reply.Records, hostRecord(have))
		case ok && sameHost(have.HostAct, act):
			reply.Same = true
			return nil, nil
		}
		return []ledger.Entry{{Time: time.Now(), By: byline(req.User), Kind: kind, Host: &act}}, nil
	})
	if err != nil || kind == ledger.KindRevoke {
		return err
	}
	for _, e := range acted {
		reply.Records = append(reply.Records, hostRecord(ledger.HostRecord{HostAct: *e.Host, Time: e.Time, By: e.By, Seq: e.Seq}))
	}
	return nil
}

func sameHost(a, b ledger.HostAct) bool {
	sameEnd := a.Expires == nil && b.Expires == nil || a.Expires != nil && b.Expires != nil && a.Expires.Equal(*b.Expires)
	a.Expires, b.Expires = nil, nil
	return sameEnd && a == b
}

func hostRecord(r ledger.HostRecord) wire.HostRecord {
	return wire.HostRecord{
		Host: r.Host, Port: r.Port, Decision: string(r.Decision), Note: r.Note, Recorded: r.Time, By: r.By, Expires: r.Expires, Act: r.Seq,
	}
}
