package main

import (
	"context"
	"fmt"
	"time"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/egress"
	"github.com/proctor-project/proctor/sidecar/hosts"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// explainHost decides as the proxy door would for the name and the port. What the
// name leads to is looked up, and judged, when the agent connects.
func (a *app) explainHost(ctx context.Context, engine, text string) error {
	target, err := hosts.Parse(text)
	if err != nil {
		return &usageError{fmt.Errorf("%s %w", display.Quote(display.Escape(text)), err)}
	}
	h, err := a.home()
	if err != nil {
		return err
	}
	path := a.policyPath(h)
	if err := a.outside("", h.Dir(), path); err != nil {
		return err
	}
	_, pol, err := readPolicy(path)
	if err != nil {
		return err
	}
	reply, err := a.askHosts(ctx, engine, wire.HostsRequest{Act: "list"})
	if err != nil {
		return err
	}
	e := explanation{Kind: "host", Subject: target.String(), Identity: target.String()}
	if pol.Egress.Door != policy.Opened {
		e.Reason, e.Rule = "the proxy door is closed", "egress.door of the policy"
		e.Remedy = "set egress.door to open in the policy"
		a.printExplanation(e)
		return nil
	}
	d := egress.Rules{
		Allow: pol.Egress.Allow, Deny: pol.Egress.Deny, Now: time.Now,
		Acts: func() ([]egress.Act, error) { return listedHosts(reply.Records) },
	}.Decide(target)
	e.Allowed, e.Reason, e.Rule = d.Allowed, d.Reason, hostRule(d)
	if d.Allowed {
		e.Reason = "is allowed"
		e.Detail = "the addresses that the name has are judged when the agent connects"
	}
	if len(d.Remedy) > 0 {
		e.Remedy = a.pasteable(display.Command(d.Remedy...))
	}
	a.printExplanation(e)
	return nil
}

// hostRule names what decided.
func hostRule(d egress.Decision) string {
	switch {
	case d.Allowed && d.By == "policy":
		return "egress.allow of the policy"
	case d.Allowed:
		return "an act of the operator in the ledger"
	case d.Denied:
		return "a denial, before every approval"
	}
	return "what is listed nowhere is refused"
}

// listedHosts are the operator's words on hosts, as they are listed.
func listedHosts(records []wire.HostRecord) ([]egress.Act, error) {
	acts := make([]egress.Act, 0, len(records))
	for _, r := range records {
		p, err := hosts.NewPattern(r.Host, r.Port)
		if err != nil {
			return nil, err
		}
		act := egress.Act{Pattern: p, Denied: r.Decision != "approved"}
		if r.Expires != nil {
			act.Expires = *r.Expires
		}
		acts = append(acts, act)
	}
	return acts, nil
}
