package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// verdictError ends with the verdict's status; everything was printed.
type verdictError int

func (e verdictError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// newChainCommand are the steps of a session without a launcher: an
// orchestrator starts each after the one before, and gives nothing but order.
// What else is to be said of a seal, ended says.
func newChainCommand(name, who string, c steps.ChainLayout, ended func(steps.ChainSealed) error, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: "The steps of a session that " + who + " puts in order, without a launcher"}
	cmd.AddCommand(
		step("init", "Make keys and control where there are none", func(cmd *cobra.Command) error {
			return steps.ChainInit(cmd.Context(), c)
		}),
		step("prepare", "Put the first process of agents and checks where they find it", func(*cobra.Command) error {
			return steps.ChainPrepare(c, "/proctor-agent")
		}),
		newChainStageCommand(c), newChainReceiveCommand(c, stdin), newChainOpenCommand(c, stderr),
		step("serve", "Answer agent and checks until the reader is done", func(cmd *cobra.Command) error {
			return steps.ChainServe(cmd.Context(), c, stdin, stdout)
		}),
		step("ready", "Succeed when serve listens", func(cmd *cobra.Command) error {
			return steps.ChainReady(cmd.Context(), c)
		}),
		newChainReadCommand("before", "Tell serve the product's digest before the checks", func(ctx context.Context, dir string, l product.Limits) error {
			return steps.ChainBefore(ctx, c, dir, l)
		}),
		newChainReadCommand("read", "Write the product's stream for seal, and have serve close its record", func(ctx context.Context, dir string, l product.Limits) error {
			return steps.ChainRead(ctx, c, dir, l)
		}),
		newChainSealCommand(c, ended, stdin, stdout), newChainSendCommand(c, stdin, stdout),
		step("public-key", "Write the public keys that verify the seals", func(cmd *cobra.Command) error {
			return steps.ChainPublicKey(c, stdout)
		}),
		newChainExportCommand(c, stdout), newChainContentCommand(stdout), newChainTrustCommand(c, stdin, stdout), newChainGiveCommand(c, stdin),
		newChainRotateCommand(c, stdout),
	)
	cmd.AddCommand(newChainApplyCommands(c, stdout)...)
	return cmd
}

func newChainStageCommand(c steps.ChainLayout) *cobra.Command {
	var exclude []string
	var cfg steps.StageConfig
	cmd := &cobra.Command{
		Use:   "stage ORIGINAL STAGE",
		Short: "Copy the product into the emptied stage",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if cfg.Exclude, err = policy.Matcher(exclude); err != nil {
				return err
			}
			if cfg.Source, err = os.Open(args[0]); err != nil {
				return err
			}
			if cfg.Target, err = os.Open(args[1]); err != nil {
				return err
			}
			return steps.ChainStage(cmd.Context(), c, cfg)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&exclude, "exclude", nil, "a pattern of paths that stay out")
	f.Uint32Var(&cfg.Owner.UID, "owner", 1, "user that the copy is given to")
	f.Uint32Var(&cfg.Owner.GID, "group", 1, "group that the copy is given to")
	limitFlags(cmd, &cfg.Limits)
	return cmd
}

func newChainOpenCommand(c steps.ChainLayout, stderr io.Writer) *cobra.Command {
	var o steps.ChainOpening
	var text string
	var images map[string]string
	launched := &launchedFlags{}
	cmd := &cobra.Command{
		Use:   "open -- COMMAND [ARG...]",
		Short: "Open a session over the baseline that stage left",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Policy, o.Command = []byte(text), args
			for _, name := range slices.Sorted(maps.Keys(images)) {
				o.Images = append(o.Images, wire.Image{For: name, Kind: "image", Ref: images[name]})
			}
			o.Launched = launched.given()
			o.Note = func(text string) { _, _ = fmt.Fprintln(stderr, "proctor: warning: "+text) }
			return steps.ChainOpen(cmd.Context(), c, o, io.Discard)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Product, "product", "", "the operator's absolute path of the product")
	f.StringVar(&text, "policy-text", "", "the policy itself")
	f.StringToStringVar(&images, "image", nil, "NAME=REFERENCE of the images that the orchestrator starts")
	f.BoolVar(&o.Doors, "doors", false, "serve was given what doors to the outside need")
	f.StringArrayVar(&o.Waivers, "allow", nil, "what the operator does without, beside what the policy names")
	launched.add(f)
	return cmd
}

func newChainSealCommand(c steps.ChainLayout, ended func(steps.ChainSealed) error, stdin io.Reader, stdout io.Writer) *cobra.Command {
	var asked steps.ChainAsked
	var remedies string
	cmd := step("seal", "Judge and seal; the status is the verdict's", func(cmd *cobra.Command) error {
		sealed, err := steps.ChainSeal(cmd.Context(), c, asked, stdin, stdout)
		if err != nil {
			return err
		}
		if err := ended(sealed); err != nil {
			return err
		}
		return sayVerdict(stdout, sealed, remedies)
	})
	cmd.Flags().StringVar(&asked.Product, "product", "", "the product that was meant")
	cmd.Flags().StringVar(&asked.PolicySHA256, "policy-sha256", "", "digest of the policy that was meant")
	cmd.Flags().StringVar(&remedies, "remedies", "", "the command that runs a tool of this stack: findings are printed with their remedies")
	return cmd
}

func newChainReadCommand(name, short string, do func(context.Context, string, product.Limits) error) *cobra.Command {
	var limits product.Limits
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: name + " DIR", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			return do(ctx, args[0], limits)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "the longest that it may take; 0 is no bound")
	limitFlags(cmd, &limits)
	return cmd
}

func newChainExportCommand(c steps.ChainLayout, stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "export FILE", Short: "Write a file of the kept seals, or their names", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return steps.ChainExport(c, name, stdout)
		},
	}
}

// sayVerdict prints what the operator of a stack sees of a seal; a launcher says
// it itself.
func sayVerdict(w io.Writer, s steps.ChainSealed, remedies string) error {
	if s.Told {
		w = io.Discard
	}
	waived := ""
	if len(s.Waivers) > 0 {
		waived = "; waived: " + strings.Join(s.Waivers, ", ")
	}
	_, err := fmt.Fprintf(w, "%s: session %s, observer chain%s\n", s.Verdict, s.Session, waived)
	for _, reason := range s.Reasons {
		_, e := fmt.Fprintf(w, "  %s\n", display.Escape(reason))
		err = errors.Join(err, e)
	}
	for _, f := range s.Findings {
		_, e := fmt.Fprintf(w, "  finding: %s\n", display.Escape(f.String()))
		err = errors.Join(err, e, sayRemedy(w, f, remedies))
	}
	if err != nil {
		return err
	}
	if code := steps.VerdictExit(s.Verdict); code != 0 {
		return verdictError(code)
	}
	return nil
}

// sayRemedy prints how to look at what was found, and the command that approves
// exactly that.
func sayRemedy(w io.Writer, f steps.ChainFinding, run string) error {
	if run == "" || f.SHA256 == "" {
		return nil
	}
	words := strings.Fields(run)
	show := display.Command(append(slices.Clone(words), "content", f.Path)...)
	approve := display.Command(append(words, "trust", "approve", f.Path, "--expect-sha256", f.SHA256)...)
	if show == "" || approve == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "    review:  %s | cat -v\n    approve: %s | %s\n", show, show, approve)
	return err
}
