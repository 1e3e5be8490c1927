package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/wire"
)

func newControlCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "control", Short: "Accept keys and control that were put back from a backup"}
	engine, yes := "", false
	restore := &cobra.Command{
		Use:   "accept-restore",
		Short: "Take an older or another ledger for the right one from now on",
		Long: `The launcher remembers outside of control how far the ledger was, and refuses an older or
another one. After a restore that you made yourself, this makes it remember what is there
now. Acts since the backup (approvals, rotations, seals) are gone.`,
		Example: `  proctor control accept-restore
  proctor control accept-restore --engine docker --yes`,
		Annotations: schema("proctor/restore/v1"),
		Args:        cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.acceptRestore(cmd.Context(), engine, yes)
		},
	}
	restore.Flags().StringVar(&engine, "engine", "", "engine whose control was put back (default: the only one)")
	restore.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.AddCommand(restore)
	return cmd
}

func (a *app) acceptRestore(ctx context.Context, engine string, yes bool) error {
	h, err := a.home()
	if err != nil {
		return err
	}
	e, err := a.openEngine(ctx, h, engineOptions{name: engine})
	if err != nil {
		return err
	}
	defer func() { _ = e.close() }()
	was, err := h.Anchor(e.name)
	if err != nil {
		return err
	}
	var reply wire.KeysReply
	if err := e.launcher.Restored(ctx, &reply); err != nil {
		return err
	}
	a.complain(fmt.Sprintf("remembered: %s", anchorText(was)))
	a.complain(fmt.Sprintf("there now:  %s", anchorText(&reply.Anchor)))
	if !yes {
		if err := a.confirm("take what is there now for the right one?", "proctor control accept-restore --yes"); err != nil {
			return err
		}
	}
	if err := h.ResetAnchor(e.name, reply.Anchor); err != nil {
		return err
	}
	if a.asJSON {
		a.printJSON(struct {
			Schema string       `json:"schema"`
			Was    *wire.Anchor `json:"was"`
			Now    wire.Anchor  `json:"now"`
		}{"proctor/restore/v1", was, reply.Anchor})
		return nil
	}
	_, _ = fmt.Fprintf(a.out, "accepted: %s\n", anchorText(&reply.Anchor))
	return nil
}

func anchorText(a *wire.Anchor) string {
	if a == nil {
		return "nothing"
	}
	return fmt.Sprintf("control %.12s, %d acts, %.12s", a.ControlID, a.Count, a.Hash)
}

// confirm asks on a terminal; the default is no. Elsewhere it refuses, and
// names the command that does not ask.
func (a *app) confirm(question, without string) error {
	if a.in == nil || !terminal(a.in, a.env) || !terminal(a.err, a.env) {
		return &hintError{errors.New("this asks first, and here is nobody to answer"), without}
	}
	_, _ = fmt.Fprintf(a.err, "proctor: %s [y/N] ", question)
	answer, err := bufio.NewReader(io.LimitReader(a.in, 100)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed; nothing was changed")
}
