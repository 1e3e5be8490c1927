package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// launchedFlags are what a launcher says of the session that it follows.
type launchedFlags struct {
	steps.Launched
	known wire.Anchor
}

func (l *launchedFlags) add(f *pflag.FlagSet) {
	f.StringVar(&l.Session, "launcher", "", "a launcher follows this session, and gave it this id")
	f.StringVar(&l.User, "user", "", "the launcher's user")
	f.StringVar(&l.Engine.Name, "engine", "", "the launcher's name of the orchestrator")
	f.StringVar(&l.Engine.Version, "engine-version", "", "its version")
	f.StringVar(&l.known.ControlID, "known-control", "", "control id that the launcher remembers")
	f.Uint64Var(&l.known.Count, "known-count", 0, "acts of the ledger that the launcher remembers")
	f.StringVar(&l.known.Hash, "known-hash", "", "hash of the ledger that the launcher remembers")
}

// given is nil where there is no launcher.
func (l *launchedFlags) given() *steps.Launched {
	if l.Session == "" {
		return nil
	}
	if l.known.ControlID != "" {
		l.Known = &l.known
	}
	return &l.Launched
}

func newChainReceiveCommand(c steps.ChainLayout, stdin io.Reader) *cobra.Command {
	var opts product.UnpackOptions
	cmd := &cobra.Command{
		Use: "receive STAGE", Short: "Take the product off standard input into the emptied stage", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return steps.ChainReceive(cmd.Context(), c, args[0], opts, stdin)
		},
	}
	cmd.Flags().StringVar(&opts.StreamSHA256, "stream-sha256", "", "digest of the tree stream that is expected")
	limitFlags(cmd, &opts.Limits)
	return cmd
}

func newChainSendCommand(c steps.ChainLayout, stdin io.Reader, stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "send DIR", Short: "Write the product, as it was read, to the launcher that asks for it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return steps.ChainSend(cmd.Context(), c, args[0], stdin, stdout)
		},
	}
}

func newPackCommand(stdout io.Writer) *cobra.Command {
	var opts struct {
		stage, stream int
		name          string
	}
	cmd := &cobra.Command{
		Use: "pack", Short: "Write a stage as one parcel", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			parent, err := descriptor(opts.stage, "stage's parent")
			if err != nil {
				return err
			}
			stage, err := steps.OpenStage(parent, opts.name)
			if err != nil {
				return err
			}
			return steps.Pack(cmd.Context(), stage, os.NewFile(uintptr(opts.stream), "stream"), stdout)
		},
	}
	f := cmd.Flags()
	f.IntVar(&opts.stage, "stage-fd", 3, "descriptor of the stage, or of the directory that holds it")
	f.StringVar(&opts.name, "stage-name", ".", "the stage's name in it")
	f.IntVar(&opts.stream, "stream-fd", 4, "descriptor of the stage's tree stream")
	return cmd
}

func newUnpackCommand(stdin io.Reader, stdout io.Writer) *cobra.Command {
	var opts struct {
		target, stream int
		owner          ownerFlags
		unpack         product.UnpackOptions
	}
	cmd := &cobra.Command{
		Use: "unpack", Short: "Make a stage of the parcel on standard input", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			target, err := descriptor(opts.target, "target")
			if err != nil {
				return err
			}
			owner := opts.owner.owner()
			opts.unpack.Owner, opts.unpack.SkipSpecial = &owner, true
			return steps.Unpack(cmd.Context(), target, os.NewFile(uintptr(opts.stream), "stream"), opts.unpack, stdin, stdout)
		},
	}
	f := cmd.Flags()
	f.IntVar(&opts.target, "target-fd", 3, "descriptor of the empty directory to unpack into")
	f.IntVar(&opts.stream, "stream-fd", 4, "descriptor of an empty file that takes the tree stream")
	opts.owner.add(f)
	f.StringVar(&opts.unpack.Tree, "tree", "", "digest of the tree that is expected")
	limitFlags(cmd, &opts.unpack.Limits)
	return cmd
}
