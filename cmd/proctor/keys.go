package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox/launch"
	"github.com/proctor-project/proctor/sidecar/wire"
)

func newKeysCommand(a *app) *cobra.Command {
	engine := ""
	cmd := &cobra.Command{
		Use: "keys", Short: "Rotate and list keys, and export the public ones",
		Long: `Each root key has its epoch. A new one signs from the moment it is made; the ones before
only verify, or, where they were declared compromised, nothing at all.`,
	}
	cmd.PersistentFlags().StringVar(&engine, "engine", "", "engine whose keys are meant (default: the only one)")
	compromised := false
	rotate := &cobra.Command{
		Use:   "rotate",
		Short: "Make a new root key; the old one only verifies from now on",
		Example: `  proctor keys rotate
  proctor keys rotate --compromised`,
		Annotations: schema("proctor/keys/v1"),
		Args:        cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.keysRotate(cmd.Context(), engine, compromised)
		},
	}
	rotate.Flags().BoolVar(&compromised, "compromised", false, "end all trust in the old key; open sessions become INDETERMINATE")
	cmd.AddCommand(
		rotate,
		&cobra.Command{
			Use: "list", Short: "List the key epochs", Args: cobra.NoArgs,
			Example:     "  proctor keys list\n  proctor keys list --engine docker --json",
			Annotations: schema("proctor/keys/v1"),
			RunE:        func(cmd *cobra.Command, _ []string) error { return a.keysList(cmd.Context(), engine) },
		},
		&cobra.Command{
			Use: "export-public", Short: "Print the chain of public keys, for proctor verify", Args: cobra.NoArgs,
			Example:     "  proctor keys export-public > public.json\n  proctor keys export-public --engine docker > public.json",
			Annotations: schema("proctor/chain/v1"),
			RunE:        func(cmd *cobra.Command, _ []string) error { return a.keysExport(cmd.Context(), engine) },
		},
	)
	return cmd
}

func (a *app) keysReply(ctx context.Context, engine string, argv []string, n launch.Needs) (wire.KeysReply, error) {
	var reply wire.KeysReply
	h, err := a.home()
	if err != nil {
		return reply, err
	}
	e, err := a.openEngine(ctx, h, engineOptions{name: engine})
	if err != nil {
		return reply, err
	}
	defer func() { _ = e.close() }()
	if err := e.launcher.KeysVerb(ctx, argv, n, &reply); err != nil {
		return reply, err
	}
	return reply, nil
}

func (a *app) keysRotate(ctx context.Context, engine string, compromised bool) error {
	argv := []string{"rotate"}
	if compromised {
		argv = append(argv, "--compromised")
	}
	reply, err := a.keysReply(ctx, engine, argv, launch.Needs{RootKeys: true, WriteKeys: true, LedgerKeys: true, Ledger: launch.LedgerWrite})
	if err != nil {
		return err
	}
	if a.asJSON {
		a.printJSON(reply)
		return nil
	}
	now := reply.Epochs[len(reply.Epochs)-1]
	_, _ = fmt.Fprintf(a.out, "rotated: epoch %d, key %s, signs from now on\n", now.Epoch, now.KeyID)
	a.complain("hint: give the new chain to everybody who verifies")
	a.complain("hint: " + a.pasteable("proctor keys export-public"))
	return nil
}

func (a *app) keysList(ctx context.Context, engine string) error {
	reply, err := a.keysReply(ctx, engine, []string{"keys"}, launch.Needs{LedgerKeys: true, Ledger: launch.LedgerRead})
	if err != nil {
		return err
	}
	if a.asJSON {
		a.printJSON(reply)
		return nil
	}
	var rows [][]string
	for _, e := range reply.Epochs {
		rows = append(rows, []string{fmt.Sprint(e.Epoch), e.State, e.KeyID})
	}
	a.table("EPOCH\tSTATE\tKEY", rows)
	return nil
}

// keysExport prints the chain alone: it is a file for others.
func (a *app) keysExport(ctx context.Context, engine string) error {
	reply, err := a.keysReply(ctx, engine, []string{"keys"}, launch.Needs{LedgerKeys: true, Ledger: launch.LedgerRead})
	if err != nil {
		return err
	}
	var chain any
	if err := json.Unmarshal(reply.Anchor.Chain, &chain); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s\n", reply.Anchor.Chain)
	return err
}
