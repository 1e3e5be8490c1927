package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
		owner          ownerFlags
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
				Owner: opts.owner.owner(),
			}, stdout)
		},
	}
	f := cmd.Flags()
	f.IntVar(&opts.source, "source-fd", 3, "descriptor of the original's directory")
	f.IntVar(&opts.target, "target-fd", 4, "descriptor of the empty directory to copy into")
	f.StringArrayVar(&opts.exclude, "exclude", nil, "a pattern of paths that stay out")
	opts.owner.add(f)
	limitFlags(cmd, &opts.limits)
	return cmd
}

// ownerFlags say whose a stage is.
type ownerFlags struct {
	id  uint32
	own bool
}

func (o *ownerFlags) add(f *pflag.FlagSet) {
	f.Uint32Var(&o.id, "owner", 1, "user and group that the stage is given to")
	f.BoolVar(&o.own, "own", false, "the stage stays this process's own")
}

func (o *ownerFlags) owner() product.Owner {
	if o.own {
		return product.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	}
	return product.Owner{UID: o.id, GID: o.id}
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

func newApplyCommand(stdout io.Writer) *cobra.Command {
	var opts struct {
		product, stage, baseline, manifest int
		name                               string
		cfg                                steps.ApplyConfig
	}
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Write the sealed bytes of a stage into a product",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if opts.cfg.Product, err = descriptor(opts.product, "product"); err != nil {
				return err
			}
			parent, err := descriptor(opts.stage, "stage's parent")
			if err != nil {
				return err
			}
			if opts.cfg.Stage, err = steps.OpenStage(parent, opts.name); err != nil {
				return err
			}
			opts.cfg.BaselineStream = os.NewFile(uintptr(opts.baseline), "baseline")
			opts.cfg.Manifest = os.NewFile(uintptr(opts.manifest), "manifest")
			return steps.Apply(cmd.Context(), opts.cfg, stdout)
		},
	}
	f := cmd.Flags()
	f.IntVar(&opts.product, "product-fd", 3, "descriptor of the product's directory")
	f.IntVar(&opts.stage, "stage-fd", 4, "descriptor of the stage, or of the directory that holds it")
	f.StringVar(&opts.name, "stage-name", ".", "the stage's name in it")
	f.IntVar(&opts.baseline, "baseline-fd", 5, "descriptor of the baseline's stream")
	f.IntVar(&opts.manifest, "manifest-fd", 6, "descriptor of the seal's manifest")
	f.StringVar(&opts.cfg.BaselineSHA256, "baseline-sha256", "", "digest of the baseline's stream, from the seal")
	f.StringVar(&opts.cfg.SealSHA256, "manifest-sha256", "", "digest of the manifest, from the seal")
	return cmd
}

func newOriginalsCommand(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "originals",
		Short: "Write what the product has at each path that a session changed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := descriptor(3, "product")
			if err != nil {
				return err
			}
			return steps.Originals(cmd.Context(), dir, os.NewFile(4, "baseline"), os.NewFile(5, "manifest"), stdout)
		},
	}
}

func newDiffCommand(stdin io.Reader, stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "diff DIR",
		Short: "Compare the originals, on standard input, with a stage",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return steps.Diff(cmd.Context(), args[0], stdin, stdout)
		},
	}
}

func newContentCommand(stdout io.Writer) *cobra.Command {
	var path []byte
	cmd := &cobra.Command{
		Use:   "content DIR",
		Short: "Write one file of a product, and how large it is",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return steps.WriteContent(cmd.Context(), args[0], string(path), stdout)
		},
	}
	cmd.Flags().BytesBase64Var(&path, "path-base64", nil, "the file's path in DIR")
	return cmd
}
