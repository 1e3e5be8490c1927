package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox/inside"
)

func newSessionCommand(stdout io.Writer) *cobra.Command {
	opts := struct {
		socket string
		asJSON bool
	}{socket: inside.SocketPath}
	cmd := &cobra.Command{
		Use:   "session",
		Short: "Ask the supervisor which session this is, who asks, and which step runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSession(cmd.Context(), opts.socket, opts.asJSON, stdout)
		},
	}
	cmd.Flags().StringVar(&opts.socket, "supervisor", opts.socket, "the supervisor's socket")
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print the supervisor's answer as it came")
	return cmd
}

func runSession(ctx context.Context, socket string, asJSON bool, stdout io.Writer) error {
	s, raw, err := inside.Ask(ctx, socket)
	if err != nil {
		return err
	}
	if asJSON {
		_, err = fmt.Fprintf(stdout, "%s\n", raw)
		return err
	}
	_, err = fmt.Fprintf(stdout, "session  %s\nrole     %s\nstep     %s\nproduct  %q\n", s.Session, s.Role, s.Step, s.Product)
	return err
}
