package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/launch"
	"github.com/proctor-project/proctor/sidecar/display"
)

type runOptions struct {
	engine   string
	runtime  string
	policy   string
	product  string
	apply    bool
	allow    []string
	terminal bool
	quiet    bool
	progress string
}

func newRunCommand(a *app) *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run an agent on a private copy of a product, audit it and seal the verdict",
		Long: `Copies the product, runs COMMAND in a container on the copy, and when the agent is gone
audits the copy, runs the policy's checks and seals the verdict. The product itself is not
touched; proctor apply, or --apply, brings home what a PASS sealed.`,
		Example: `  proctor run -- my-agent --task 'fix the failing test'
  proctor run --product ~/site --engine docker -t -- my-agent`,
		Annotations: schema("proctor/run/v1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd.Context(), opts, args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&opts.engine, "engine", "", "engine to run on: local, docker, containerd or kubernetes (default: the policy's)")
	f.StringVar(&opts.runtime, "runtime", "", "runtime of the agent and the checks: runc or runsc (default: the policy's)")
	f.StringVar(&opts.policy, "policy", "", "the operator's policy file")
	f.StringVar(&opts.product, "product", ".", "directory that the agent gets a copy of")
	f.BoolVar(&opts.apply, "apply", false, "after PASS, bring the sealed changes home")
	f.StringArrayVar(&opts.allow, "allow", nil, "do without NAME: runtime-floor, one-identity, no-limits, shared-network")
	f.BoolVarP(&opts.terminal, "terminal", "t", false, "give the agent this terminal")
	f.BoolVarP(&opts.quiet, "quiet", "q", false, "do not show the agent's output")
	f.StringVar(&opts.progress, "progress", "auto", "how progress is shown: auto, plain, json or none")
	return cmd
}

func (a *app) run(ctx context.Context, opts runOptions, command []string) error {
	plan, engine, err := a.plan(ctx, opts, command)
	if err != nil {
		return err
	}
	defer func() { _ = engine.close() }()
	restore, err := a.terminalFor(opts, &plan)
	if err != nil {
		return err
	}
	early := ctx
	ctx, stop, done := a.interrupts(context.WithoutCancel(ctx), opts.terminal)
	defer done()
	plan.Stop = stop
	if early.Err() != nil {
		restore()
		return &failedError{errInterrupted, exitIndeterminate}
	}

	mode := progressMode(opts.progress)
	p := newProgress(a.err, mode, terminal(a.err, a.env), opts.terminal)
	p.paste = a.pasteable
	relayed := a.relay(&plan, p, opts.quiet)
	word := ""
	if opts.terminal {
		word = runWord()
		a.complain("this run's word: " + word)
	}
	plan.About = fmt.Sprintf("product %s, engine %s (%s %s)", plan.Product, engine.name, engine.info.Runtime, engine.info.RuntimeVersion)
	ticks := make(chan struct{})
	ticking := make(chan struct{})
	go a.crash().Guard(func() { defer close(ticking); p.run(ticks) })()
	result, err := engine.launcher.Run(ctx, plan, p)
	close(ticks)
	<-ticking
	for _, lines := range relayed {
		lines.Flush()
	}
	restore()
	if err != nil {
		return runError(ctx, result, err)
	}
	return a.conclude(ctx, engine, result, opts.apply, word)
}

// relay shows what the agent and the checks print, escaped, above our own lines.
func (a *app) relay(plan *launch.Plan, p *progress, quiet bool) []*display.Lines {
	if quiet {
		return nil
	}
	agent := display.NewLines(outside{p, a.err}, display.AgentPrefix)
	check := display.NewLines(outside{p, a.err}, "check| ")
	plan.Output, plan.CheckOutput = agent, check
	return []*display.Lines{agent, check}
}

// errInterrupted is the cause of a second Ctrl-C.
var errInterrupted = errors.New("interrupted")

func runError(ctx context.Context, r launch.Result, err error) error {
	if errors.Is(context.Cause(ctx), errInterrupted) {
		err = errInterrupted
	}
	var step *launch.StepError
	var refused *sandbox.RefusedError
	early := errors.As(err, &step) && step.Step == "open" && step.Refused() || errors.As(err, &refused)
	if r.Session == "" || early {
		return err
	}
	return &failedError{fmt.Errorf("INDETERMINATE (exit %d): session %s: %w", exitIndeterminate, r.Session, err), exitIndeterminate}
}

// interrupts: the first Ctrl-C ends the agent and audits what it made, the
// second ends everything. With a terminal of its own it is the agent's.
func (a *app) interrupts(ctx context.Context, agents bool) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM)
	if !agents {
		signal.Notify(signals, syscall.SIGINT)
	}
	stop, finished := make(chan struct{}), make(chan struct{})
	go a.crash().Guard(func() {
		for n := 0; ; n++ {
			select {
			case <-signals:
				if n == 0 {
					close(stop)
				} else {
					cancel(errInterrupted)
				}
			case <-finished:
				return
			}
		}
	})()
	return ctx, stop, func() {
		signal.Stop(signals)
		close(finished)
		cancel(nil)
	}
}

// terminalFor takes the operator's terminal for the agent and returns how to
// get it back as it was.
func (a *app) terminalFor(opts runOptions, plan *launch.Plan) (restore func(), err error) {
	if !opts.terminal {
		return func() {}, nil
	}
	fd := int(a.in.Fd())
	if !term.IsTerminal(fd) {
		return nil, &hintError{errors.New("-t: standard input is not a terminal"), "run it without -t"}
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	plan.Terminal = a.in
	a.restore = func() {
		_ = term.Restore(fd, before)
		// Leave the alternate screen, show the cursor, reset colours: whatever
		// the agent left behind, before our first byte.
		_, _ = io.WriteString(a.err, "\x1b[?1049l\x1b[?25h\x1b[0m\r\n")
	}
	return a.restore, nil
}

func productDir(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", fmt.Errorf("product: %w", err)
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return "", fmt.Errorf("product: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("product %s is not a directory", resolved)
	}
	return resolved, nil
}

func hostUser() string {
	u, err := user.Current()
	if err != nil {
		return fmt.Sprint(os.Geteuid())
	}
	return u.Username
}

// runWord is a word that the agent never learns: an agent that paints a verdict
// on the terminal cannot paint it.
func runWord() string {
	words := []string{"amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jade", "kelp", "larch", "maple", "north", "ochre", "pearl", "quartz", "raven", "slate", "thyme", "umber", "vale", "willow", "yarrow"}
	pick := func(n int) int {
		i, err := rand.Int(rand.Reader, big.NewInt(int64(n)))
		if err != nil {
			return 0
		}
		return int(i.Int64())
	}
	return fmt.Sprintf("%s-%d", words[pick(len(words))], 10+pick(90))
}
