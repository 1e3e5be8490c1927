package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/wire"
)

func newTrustListCommand(a *app, engine *string) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List every record, and whether its path still has that content",
		Example: `  proctor trust list
  proctor trust list --json`,
		Annotations: schema("proctor/trust/v1"),
		Args:        cobra.NoArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.trustList(cmd.Context(), *engine) },
	}
}

// trustAll asks for every record.
func (a *app) trustAll(ctx context.Context, engine string) (wire.TrustReply, error) {
	t, err := a.openTrust(ctx, engine, "")
	if err != nil {
		return wire.TrustReply{}, err
	}
	defer func() { _ = t.close() }()
	return t.launcher.Trust(ctx, wire.TrustRequest{Schema: "proctor/trust/v1", Act: "list", By: hostUser()}, nil)
}

func (a *app) trustList(ctx context.Context, engine string) error {
	reply, err := a.trustAll(ctx, engine)
	if err != nil {
		return err
	}
	doc := trustDocument{Schema: "proctor/trust/v1", Records: []trustRow{}, References: []string{}}
	for _, r := range reply.Records {
		row := rowOfRecord(r)
		row.Now = nowOf(r.Path.Raw(), r.SHA256)
		doc.Records = append(doc.Records, row)
	}
	if a.asJSON {
		a.printJSON(doc)
		return nil
	}
	if len(doc.Records) == 0 {
		a.complain("nothing was approved or denied yet")
		return nil
	}
	a.trustTable(doc.Records, time.Now())
	return nil
}

func (a *app) trustTable(rows []trustRow, now time.Time) {
	onTerminal := terminal(a.out, a.env)
	var cells [][]string
	var changed []string
	for _, r := range rows {
		path := r.Path
		if r.PathBase64 != nil {
			path = string(r.PathBase64)
		}
		if r.Now == "changed" && r.Decision == "approved" {
			changed = append(changed, path)
		}
		sum, recorded, expires := r.SHA256, r.Recorded.UTC().Format(time.RFC3339), "never"
		if r.Expires != nil {
			expires = r.Expires.UTC().Format(time.RFC3339)
		}
		if onTerminal {
			sum, recorded, expires = sum[:12], display.Age(r.Recorded, now), leftOf(r.Expires, now)
		}
		cells = append(cells, []string{r.Decision, r.Now, sum, recorded, expires, display.Escape(path)})
	}
	a.table("DECISION\tNOW\tSHA256\tRECORDED\tEXPIRES\tPATH", cells)
	if !onTerminal {
		return
	}
	if len(changed) == 0 {
		_, _ = fmt.Fprintf(a.out, "%s\n", display.Plural(int64(len(rows)), "record"))
		return
	}
	_, _ = fmt.Fprintf(a.out, "%s, %d changed since: %s\n", display.Plural(int64(len(rows)), "record"), len(changed),
		a.pasteable(display.Command("proctor", "trust", "show", changed[0])))
}

// leftOf is how long a record still holds.
func leftOf(expires *time.Time, now time.Time) string {
	switch {
	case expires == nil:
		return "never"
	case !expires.After(now):
		return "over"
	}
	if left := expires.Sub(now); left < 48*time.Hour {
		return display.Duration(left)
	}
	return fmt.Sprintf("%d d", int(expires.Sub(now).Hours()/24))
}

func newTrustRevokeCommand(a *app, engine *string) *cobra.Command {
	var path pathFlags
	cmd := &cobra.Command{
		Use:   "revoke PATH",
		Short: "Take back a path's record, approved or denied",
		Example: `  proctor trust revoke /home/me/site/.envrc
  proctor trust revoke ./.envrc --engine docker`,
		Annotations: schema("proctor/trust/v1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.trustRevoke(cmd.Context(), *engine, path.raw(args))
		},
	}
	path.add(cmd)
	return cmd
}

// trustRevoke looks for the path as it was written first: its file may have
// become a link, or be gone, since it was approved.
func (a *app) trustRevoke(ctx context.Context, engine, raw string) error {
	abs, err := absolute(raw)
	if err != nil {
		return err
	}
	t, err := a.openTrust(ctx, engine, "")
	if err != nil {
		return err
	}
	defer func() { _ = t.close() }()
	names := []string{abs}
	if real, err := resolved(abs); err == nil && real != abs {
		names = append(names, real)
	}
	for _, name := range names {
		reply, err := t.launcher.Trust(ctx, wire.TrustRequest{Schema: "proctor/trust/v1", Act: "revoke", By: hostUser(), Path: pathIn(name)}, nil)
		if err != nil {
			return about(name, err)
		}
		if len(reply.Records) == 0 {
			continue
		}
		if a.asJSON {
			a.printTrust("revoked", reply)
			return nil
		}
		r := reply.Records[0]
		_, _ = fmt.Fprintf(a.out, "revoked %s: it was %s sha256:%s; nothing is recorded for it now\n", display.Escape(name), r.Decision, r.SHA256)
		return nil
	}
	return &failedError{&hintError{errors.New("nothing is recorded for " + display.Escape(abs)), "proctor trust list"}, exitFail}
}
