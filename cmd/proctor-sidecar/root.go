package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Exit statuses of every step.
const (
	exitRefused  = 2
	exitInternal = 3
)

// run is the whole program. What goes wrong is one line of JSON on standard
// error: the launcher shows it, with its own remedy.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if p := recover(); p != nil {
			complain(stderr, wire.Refusal{Error: fmt.Sprintf("internal: %v", p)})
			code = exitInternal
		}
	}()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := keys.Harden(); err != nil {
		complain(stderr, wire.Refusal{Error: err.Error()})
		return exitInternal
	}
	err := newRootCommand(args, stdin, stdout, stderr).ExecuteContext(ctx)
	var verdict verdictError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &verdict):
		return int(verdict)
	}
	var refused *steps.RefusedError
	if errors.As(err, &refused) {
		complain(stderr, wire.Refusal{Error: refused.Error(), Hint: refused.Hint})
		return exitRefused
	}
	complain(stderr, wire.Refusal{Error: err.Error()})
	return exitInternal
}

func complain(w io.Writer, r wire.Refusal) {
	b, err := strictjson.Marshal(r)
	if err != nil {
		b = []byte(`{"error":"internal: an error that cannot be written"}`)
	}
	_, _ = w.Write(append(b, '\n'))
}

func newRootCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "proctor-sidecar",
		Short:         "The supervisor's steps",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetArgs(args)
	layout := steps.ContainerLayout()
	root.AddCommand(
		step("open", "Open a session: request and baseline on standard input", func(cmd *cobra.Command) error {
			return steps.Open(cmd.Context(), layout, stdin, stdout)
		}),
		step("serve", "Answer the agent until standard input ends", func(cmd *cobra.Command) error {
			return steps.Serve(cmd.Context(), layout, stdin, stdout)
		}),
		step("seal", "Judge and seal a session: request and the reader's stream on standard input", func(cmd *cobra.Command) error {
			return steps.Seal(cmd.Context(), layout, stdin, stdout)
		}),
		newReadCommand(stdout), newStageCommand(stdout), newUnstageCommand(), newApplyCommand(stdout),
		newOriginalsCommand(stdout), newDiffCommand(stdin, stdout), newContentCommand(stdout),
		newPackCommand(stdout), newUnpackCommand(stdin, stdout),
	)
	chain := steps.ContainerChain()
	root.AddCommand(
		newChainCommand("chain", "an orchestrator", chain, func(steps.ChainSealed) error { return nil }, stdin, stdout, stderr),
		newChainCommand("pod", "a Pod", chain.InPod(), podEnd(stdout), stdin, stdout, stderr),
	)
	root.AddCommand(newVerbCommands(layout, stdin, stdout)...)
	return root
}

func step(name, short string, do func(*cobra.Command) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return do(cmd) },
	}
}

// descriptor is a directory that the launcher handed over opened.
func descriptor(fd int, name string) (*os.File, error) {
	f := os.NewFile(uintptr(fd), name)
	if f == nil {
		return nil, fmt.Errorf("descriptor %d for %s: not given", fd, name)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("descriptor %d for %s: %w", fd, name, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("descriptor %d for %s: not a directory", fd, name)
	}
	return f, nil
}
