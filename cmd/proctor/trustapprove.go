package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/wire"
)

func newTrustApproveCommand(a *app, engine *string) *cobra.Command {
	var path pathFlags
	var note, expires string
	cmd := &cobra.Command{
		Use:   "approve PATH",
		Short: "Approve exactly one content of one path",
		Long: `Approves the content that PATH has now. With --session it is the content that this
session's agent made, or, while it runs, showed; the path that is recorded is the operator's
own. With --expect-sha256 any other content is refused, so that what is approved is what was
shown.`,
		Example: `  proctor trust approve /home/me/site/.envrc
  proctor trust approve /home/me/site/.envrc --session 7f3k2q9abcde --expires 30d`,
		Annotations: schema("proctor/trust/v1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.trustRecord(cmd.Context(), *engine, path, args, wire.TrustRequest{Act: "approve", Note: note}, expires)
		},
	}
	path.addContent(cmd)
	cmd.Flags().StringVar(&note, "note", "", "why, for the record")
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: 90m, 12h, 30d, or a date as 2026-12-31")
	return cmd
}

func newTrustDenyCommand(a *app, engine *string) *cobra.Command {
	var path pathFlags
	var note string
	cmd := &cobra.Command{
		Use:   "deny PATH",
		Short: "Deny a path, whatever its content becomes",
		Example: `  proctor trust deny /home/me/site/.envrc
  proctor trust deny /home/me/site/.envrc --session 7f3k2q9abcde --note 'use direnv at home'`,
		Annotations: schema("proctor/trust/v1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.trustRecord(cmd.Context(), *engine, path, args, wire.TrustRequest{Act: "deny", Note: note}, "")
		},
	}
	path.addContent(cmd)
	cmd.Flags().StringVar(&note, "note", "", "why, for the record")
	return cmd
}

func (a *app) trustRecord(ctx context.Context, engine string, flags pathFlags, args []string, req wire.TrustRequest, expires string) error {
	if err := flags.check(); err != nil {
		return err
	}
	abs, err := absolute(flags.raw(args))
	if err != nil {
		return err
	}
	req.Schema, req.By, req.Expect = "proctor/trust/v1", hostUser(), flags.expect
	if req.Expires, err = lifetime(expires, time.Now()); err != nil {
		return err
	}
	t, err := a.openTrust(ctx, engine, flags.session)
	if err != nil {
		return err
	}
	defer func() { _ = t.close() }()
	reply, path, err := t.aboutContent(ctx, req, abs)
	if err != nil {
		return err
	}
	r := reply.Records[0]
	if a.asJSON {
		a.printTrust(r.Decision, reply)
		return nil
	}
	_, _ = fmt.Fprintf(a.out, "%s %s sha256:%s%s\n", r.Decision, display.Escape(path), r.SHA256, until(r.Expires))
	for _, ref := range reply.References {
		_, _ = fmt.Fprintf(a.out, "  refers to %s: not covered by this\n", display.Escape(ref))
	}
	if t.state.Session != "" && t.state.Verdict != "" {
		a.complain("hint: " + a.pasteable("proctor audit "+t.state.Session))
	}
	return nil
}
