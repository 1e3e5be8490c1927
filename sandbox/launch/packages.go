package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/proctor-project/proctor/sidecar/wire"
)

// Packages runs the supervisor's verb for decisions about packages, and raises
// the anchor to what it answers.
func (l *Launcher) Packages(ctx context.Context, req wire.PackagesRequest) (wire.PackagesReply, error) {
	var reply wire.PackagesReply
	req.Schema = "proctor/packages/v1"
	if req.Packages == nil {
		req.Packages = []wire.Package{}
	}
	line, err := json.Marshal(req)
	if err != nil {
		return reply, fmt.Errorf("packages: %w", err)
	}
	needs := Needs{LedgerKeys: true, Ledger: LedgerWrite}
	if req.Act == "list" {
		needs.Ledger = LedgerRead
	}
	if err := l.Verb(ctx, []string{"packages"}, needs, bytes.NewReader(append(line, '\n')), &reply); err != nil {
		return reply, err
	}
	return reply, l.cfg.Home.RaiseAnchor(l.place.Engine, reply.Anchor)
}
