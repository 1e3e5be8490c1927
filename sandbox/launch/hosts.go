package launch

import (
	"bytes"
	"context"

	"github.com/proctor-project/proctor/sidecar/wire"
)

// Hosts runs the supervisor's verb for decisions about hosts, and raises the
// anchor to what it answers.
func (l *Launcher) Hosts(ctx context.Context, req wire.HostsRequest) (wire.HostsReply, error) {
	var reply wire.HostsReply
	b, err := line(req)
	if err != nil {
		return reply, err
	}
	needs := Needs{LedgerKeys: true, Ledger: readWrite}
	if req.Act == "list" {
		needs.Ledger = readOnly
	}
	if err := l.Verb(ctx, []string{"hosts"}, needs, bytes.NewReader(b), &reply); err != nil {
		return reply, err
	}
	return reply, l.cfg.Home.RaiseAnchor(l.place.Engine, reply.Anchor)
}
