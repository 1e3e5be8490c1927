package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newAuditCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "audit SESSION",
		Short: "Judge a session's bytes again, by the ledger of now, and seal the result",
		Long: `Reads the session's copy again and seals a new verdict over the same bytes. The agent, the
checks, the policy and the boundary stay as they were sealed; only the ledger is new, so an
approval given since counts, and one taken back counts no longer. The same inputs never seal
better.`,
		Example: `  proctor audit 7f3k2q9abcde
  proctor audit --json 7f3k2q9abcde`,
		Annotations: schema("proctor/run/v1"),
		Args:        cobra.ExactArgs(1),
		RunE:        func(cmd *cobra.Command, args []string) error { return a.audit(cmd.Context(), args[0]) },
	}
}

func (a *app) audit(ctx context.Context, id string) error {
	h, st, err := a.known(id)
	if err != nil {
		return err
	}
	e, err := a.openEngine(ctx, h, engineOptions{name: st.Engine})
	if err != nil {
		return err
	}
	defer func() { _ = e.close() }()
	if st.Seals > 0 {
		if _, _, err := e.verifiedSeal(id); err != nil {
			return err
		}
	}
	if _, err := e.launcher.Clean(ctx); err != nil {
		return err
	}
	p := newProgress(a.err, progressAuto, terminal(a.err, a.env), false)
	result, err := e.launcher.Audit(ctx, id, p)
	if err != nil {
		return err
	}
	return a.conclude(ctx, e, result, false, "")
}
