package main

import (
	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox/inside"
)

func newFenceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fence -- COMMAND [ARG...]",
		Short: "Run COMMAND where it can neither trace nor signal who started it",
		Long: `For checks whose driver runs the product as its child: the two have one identity, and a
hostile product could write into its driver's memory. Behind the fence it cannot.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return inside.Fence(args) },
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}
