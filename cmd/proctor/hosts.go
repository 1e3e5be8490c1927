package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/hosts"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// hostVerbs are the verbs about hosts that an agent may reach.
func hostVerbs(a *app) []*cobra.Command {
	return []*cobra.Command{newAllowHostCommand(a), newDenyHostCommand(a), newListHostsCommand(a), newRevokeHostCommand(a)}
}

// hostRow is a record in --json.
type hostRow struct {
	Host     string     `json:"host"` // name and port; a name that begins with *. is every host below it
	Decision string     `json:"decision"`
	Now      string     `json:"now"` // holds, expired
	Recorded time.Time  `json:"recorded_at"`
	By       string     `json:"recorded_by"`
	Expires  *time.Time `json:"expires,omitempty"`
	Note     string     `json:"note"`
}

type hostsDocument struct {
	Schema  string    `json:"schema"` // "proctor/hosts/v1"
	Done    string    `json:"done"`   // approved, denied, revoked, nothing; "" for a list
	Records []hostRow `json:"records"`
}

func hostRowOf(r wire.HostRecord, now time.Time) hostRow {
	row := hostRow{Decision: r.Decision, Now: "holds", Recorded: r.Recorded, By: r.By, Expires: r.Expires, Note: r.Note}
	if p, err := hosts.NewPattern(r.Host, r.Port); err == nil {
		row.Host = p.String()
	}
	if r.Expires != nil && !r.Expires.After(now) {
		row.Now = "expired"
	}
	return row
}

func (a *app) printHosts(done string, reply wire.HostsReply) {
	doc := hostsDocument{Schema: "proctor/hosts/v1", Done: done, Records: []hostRow{}}
	for _, r := range reply.Records {
		doc.Records = append(doc.Records, hostRowOf(r, time.Now()))
	}
	a.printJSON(doc)
}

// askHosts opens the ledger for one question or act about hosts.
func (a *app) askHosts(ctx context.Context, engine string, req wire.HostsRequest) (wire.HostsReply, error) {
	t, err := a.openTrust(ctx, engine, "")
	if err != nil {
		return wire.HostsReply{}, err
	}
	defer func() { _ = t.close() }()
	req.Schema, req.User = "proctor/hosts/v1", hostUser()
	return t.launcher.Hosts(ctx, req)
}

// hostPattern reads HOST:PORT as the operator writes it.
func hostPattern(text string) (hosts.Pattern, error) {
	p, err := hosts.ParsePattern(text)
	if err != nil {
		return p, &usageError{fmt.Errorf("%s %w", display.Quote(display.Escape(text)), err)}
	}
	return p, nil
}

func newAllowHostCommand(a *app) *cobra.Command {
	var engine, expires, note string
	cmd := &cobra.Command{
		Use:   "allow-host HOST:PORT",
		Short: "Let agents reach a host through the proxy door",
		Long: `Running sessions whose policy has egress.door open know it at once. *.NAME:PORT is every host
below the name. An address that is not public has to be allowed itself, also where a name
leads to it.`,
		Example: `  proctor allow-host api.example.com:443
  proctor allow-host '*.example.com:443' --expires 12h`,
		Annotations: schema("proctor/hosts/v1"),
		Args:        cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			end, err := lifetime(expires, time.Now())
			if err != nil {
				return err
			}
			return a.decideHost(cmd.Context(), engine, args[0], wire.HostsRequest{Act: "approve", Note: note, Expires: end})
		},
	}
	hostEngine(cmd, &engine)
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: a time from now (90m, 12h, 30d) or a date (2026-12-31)")
	cmd.Flags().StringVar(&note, "note", "", "why, for the record")
	return cmd
}

func hostEngine(cmd *cobra.Command, engine *string) {
	cmd.Flags().StringVar(engine, "engine", "", "engine whose ledger is meant (default: the only one)")
}

func newDenyHostCommand(a *app) *cobra.Command {
	var engine, reason string
	cmd := &cobra.Command{
		Use:   "deny-host HOST:PORT",
		Short: "Keep agents from a host, whatever else allows it",
		Long:  `A denial is stronger than every approval and than the policy's egress.allow.`,
		Example: `  proctor deny-host telemetry.example.com:443
  proctor deny-host '*.example.com:443' --reason 'not from here'`,
		Annotations: schema("proctor/hosts/v1"),
		Args:        cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.decideHost(cmd.Context(), engine, args[0], wire.HostsRequest{Act: "deny", Note: reason})
		},
	}
	hostEngine(cmd, &engine)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

func (a *app) decideHost(ctx context.Context, engine, text string, req wire.HostsRequest) error {
	p, err := hostPattern(text)
	if err != nil {
		return err
	}
	req.Host, req.Port = p.Host(), p.Port()
	reply, err := a.askHosts(ctx, engine, req)
	if err != nil {
		return err
	}
	word := map[string]string{"approve": "allowed", "deny": "denied"}[req.Act]
	if a.asJSON {
		a.printHosts(map[string]string{"approve": "approved", "deny": "denied"}[req.Act], reply)
		return nil
	}
	if reply.Same {
		word += " already:"
	}
	_, _ = fmt.Fprintf(a.out, "%s %s%s\n", word, p, until(req.Expires))
	if req.Act == "approve" && a.doorClosed() {
		a.complain("hint: no agent reaches a host before the policy says: egress: {door: open}")
	}
	return nil
}

// doorClosed reports whether the operator's policy is there and opens no proxy.
func (a *app) doorClosed() bool {
	h, err := a.home()
	if err != nil {
		return false
	}
	_, pol, err := readPolicy(a.policyPath(h))
	return err == nil && pol.Egress.Door == policy.Closed
}

func newRevokeHostCommand(a *app) *cobra.Command {
	engine := ""
	cmd := &cobra.Command{
		Use:   "revoke-host HOST:PORT",
		Short: "Take back a host's record, allowed or denied",
		Long:  `A tunnel that is open stays open; nothing new is let through.`,
		Example: `  proctor revoke-host api.example.com:443
  proctor revoke-host '*.example.com:443'`,
		Annotations: schema("proctor/hosts/v1"),
		Args:        cobra.ExactArgs(1),
		RunE:        func(cmd *cobra.Command, args []string) error { return a.revokeHost(cmd.Context(), engine, args[0]) },
	}
	hostEngine(cmd, &engine)
	return cmd
}

func (a *app) revokeHost(ctx context.Context, engine, text string) error {
	p, err := hostPattern(text)
	if err != nil {
		return err
	}
	reply, err := a.askHosts(ctx, engine, wire.HostsRequest{Act: "revoke", Host: p.Host(), Port: p.Port()})
	if err != nil {
		return err
	}
	if len(reply.Records) == 0 {
		return &failedError{&hintError{fmt.Errorf("nothing is recorded for %s", p), "proctor list-hosts"}, exitFail}
	}
	if a.asJSON {
		a.printHosts("revoked", reply)
		return nil
	}
	_, _ = fmt.Fprintf(a.out, "revoked %s: it was %s; nothing is recorded for it now\n", p, reply.Records[0].Decision)
	return nil
}

func newListHostsCommand(a *app) *cobra.Command {
	engine := ""
	cmd := &cobra.Command{
		Use:   "list-hosts",
		Short: "List every record about hosts",
		Example: `  proctor list-hosts
  proctor list-hosts --json`,
		Annotations: schema("proctor/hosts/v1"),
		Args:        cobra.NoArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.listHosts(cmd.Context(), engine) },
	}
	hostEngine(cmd, &engine)
	return cmd
}

func (a *app) listHosts(ctx context.Context, engine string) error {
	reply, err := a.askHosts(ctx, engine, wire.HostsRequest{Act: "list"})
	if err != nil {
		return err
	}
	if a.asJSON {
		a.printHosts("", reply)
		return nil
	}
	if len(reply.Records) == 0 {
		a.complain("no host was allowed or denied yet")
		return nil
	}
	now, onTerminal := time.Now(), terminal(a.out, a.env)
	var cells [][]string
	for _, r := range reply.Records {
		row := hostRowOf(r, now)
		recorded, expires := r.Recorded.UTC().Format(time.RFC3339), "never"
		if r.Expires != nil {
			expires = r.Expires.UTC().Format(time.RFC3339)
		}
		if onTerminal {
			recorded, expires = display.Age(r.Recorded, now), leftOf(r.Expires, now)
		}
		cells = append(cells, []string{row.Decision, row.Now, recorded, expires, display.Escape(row.Host)})
	}
	a.table("DECISION\tNOW\tRECORDED\tEXPIRES\tHOST", cells)
	if onTerminal {
		_, _ = fmt.Fprintf(a.out, "%s\n", display.Plural(int64(len(reply.Records)), "record"))
	}
	return nil
}
