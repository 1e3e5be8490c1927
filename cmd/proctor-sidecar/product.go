package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/steps"
)

func newReadCommand(stdout io.Writer) *cobra.Command {
	var opts struct {
		digest bool
		limits product.Limits
	}
	cmd := &cobra.Command{
		Use:   "read DIR",
		Short: "Walk a product as hostile data and write its tree stream",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.digest {
				return steps.ReadDigest(cmd.Context(), args[0], opts.limits, stdout)
			}
			return steps.Read(cmd.Context(), args[0], opts.limits, stdout)
		},
	}
	cmd.Flags().BoolVar(&opts.digest, "digest", false, "write only the tree digest, as one line of JSON")
	limitFlags(cmd, &opts.limits)
	return cmd
}

func limitFlags(cmd *cobra.Command, l *product.Limits) {
	cmd.Flags().Int64Var(&l.Entries, "max-entries", 0, "most entries of the tree; 0 is the built-in limit")
	cmd.Flags().Int64Var(&l.FileBytes, "max-file-size", 0, "most bytes of one file; 0 is the built-in limit")
	cmd.Flags().Int64Var(&l.TotalBytes, "max-total-size", 0, "most bytes of all files; 0 is the built-in limit")
}

func newStageCommand(stdout io.Writer) *cobra.Command {
	var opts struct {
		source, target int
		exclude        []string
		owner          uint32
		limits         product.Limits
	}
	cmd := &cobra.Command{
		Use:   "stage",
		Short: "Copy a product into a stage and write the copy's tree stream",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			src, err := descriptor(opts.source, "source")
			if err != nil {
				return err
			}
			dst, err := descriptor(opts.target, "target")
			if err != nil {
				return err
			}
			exclude, err := policy.Matcher(opts.exclude)
			if err != nil {
				return err
			}
			return steps.Stage(cmd.Context(), steps.StageConfig{
				Source: src, Target: dst, Exclude: exclude, Limits: opts.limits,
				Owner: product.Owner{UID: opts.owner, GID: opts.owner},
			}, stdout)
		},
	}
	f := cmd.Flags()
	f.IntVar(&opts.source, "source-fd", 3, "descriptor of the original's directory")
	f.IntVar(&opts.target, "target-fd", 4, "descriptor of the empty directory to copy into")
	f.StringArrayVar(&opts.exclude, "exclude", nil, "a pattern of paths that stay out")
	f.Uint32Var(&opts.owner, "owner", 1, "user and group that the copy is given to")
	limitFlags(cmd, &opts.limits)
	return cmd
}

func newUnstageCommand() *cobra.Command {
	var opts struct {
		parent int
		name   string
	}
	cmd := &cobra.Command{
		Use:   "unstage",
		Short: "Remove a stage",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			parent, err := descriptor(opts.parent, "parent")
			if err != nil {
				return err
			}
			return steps.Unstage(parent, opts.name)
		},
	}
	cmd.Flags().IntVar(&opts.parent, "parent-fd", 3, "descriptor of the stage's parent")
	cmd.Flags().StringVar(&opts.name, "name", "tree", "the stage's name in it")
	return cmd
}
