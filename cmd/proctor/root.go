package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sandbox/launch"
	"github.com/proctor-project/proctor/sidecar/display"
)

// Exit statuses; docs/cli.md says what each means.
const (
	exitOK            = 0
	exitFail          = 1
	exitRefused       = 2
	exitIndeterminate = 3
)

// streams are the process's own.
type streams struct {
	in  *os.File
	out io.Writer
	err io.Writer
}

// app is what every verb works with.
type app struct {
	streams
	env     func(string) string
	homeDir string
	// dockerHost is the daemon's address; "" is $PROCTOR_DOCKER_HOST, then the
	// usual socket.
	dockerHost string
	// containerd is the daemon's socket and the namespace in it; "" is
	// $PROCTOR_CONTAINERD_ADDRESS and _NAMESPACE, then the usual ones.
	containerd struct{ address, namespace string }
	asJSON     bool
	// restore gives the operator's terminal back; nil where it was not taken.
	restore func()
}

// outcomeError ends the process with a status after everything was printed.
type outcomeError int

func (e outcomeError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

func outcomeOf(code int) error {
	if code == exitOK {
		return nil
	}
	return outcomeError(code)
}

// usageError is a command line that cannot be meant.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// hintError carries a remedy; the command is the last thing on its line.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

func run(ctx context.Context, args []string, s streams, env func(string) string) int {
	a := &app{streams: s, env: env}
	return a.execute(ctx, newRootCommand(a), args)
}

// execute runs one command line. A panic ends with 3, not with Go's own 2, which
// here means that nothing was started.
func (a *app) execute(ctx context.Context, root *cobra.Command, args []string) (code int) {
	cmd := root
	defer func() {
		if p := recover(); p != nil {
			code = a.report(cmd, &failedError{fmt.Errorf("internal: %v", p), exitIndeterminate})
		}
	}()
	// Until the flags are parsed, an error has to know already how to be printed.
	a.asJSON = asksJSON(args)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	root.SetArgs(args)
	cmd, err := checkVerb(root, args)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	return a.report(cmd, interrupted(ctx, err))
}

// crash is what a panic in a goroutine comes to, which execute cannot see: the
// same as one in main. What the session has started ends by itself, and is
// removed, as after every end of this process.
func (a *app) crash() sandbox.Crash {
	return func(value any) {
		if a.restore != nil {
			a.restore()
		}
		os.Exit(a.report(nil, &failedError{fmt.Errorf("internal: %v", value), exitIndeterminate}))
	}
}

// interrupted makes an interruption of what came out of one: what was ended
// half-way says only that it was.
func interrupted(ctx context.Context, err error) error {
	var outcome outcomeError
	var known *failedError
	if err == nil || ctx.Err() == nil || errors.As(err, &outcome) || errors.As(err, &known) {
		return err
	}
	// Its words are kept, its remedy is not: there is nothing to remedy.
	return &failedError{fmt.Errorf("%w: %s", errInterrupted, err.Error()), exitIndeterminate}
}

// asksJSON reports whether --json is among proctor's own arguments.
func asksJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--json", "--json=true":
			return true
		case "--":
			return false
		}
	}
	return false
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "proctor",
		Short: "Run an AI agent that nobody has to trust, and seal what it made",
		Long: `Proctor runs an agent in a container of its own, on a private copy of a product.
When the agent is gone, the copy is audited, the operator's checks run over it,
and a verdict is sealed that anyone can verify offline.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs, // checkVerb knows better
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().StringVar(&a.homeDir, "home", "", "directory of keys, control and the launcher's own state (default: $XDG_STATE_HOME/proctor)")
	root.PersistentFlags().StringVar(&a.dockerHost, "docker-host", "", "address of the Docker daemon, unix:///PATH (default: $PROCTOR_DOCKER_HOST, then the usual socket)")
	root.PersistentFlags().StringVar(&a.containerd.address, "containerd-address", "", "socket of containerd (default: $PROCTOR_CONTAINERD_ADDRESS, then /run/containerd/containerd.sock)")
	root.PersistentFlags().StringVar(&a.containerd.namespace, "containerd-namespace", "", "containerd's namespace (default: $PROCTOR_CONTAINERD_NAMESPACE, then proctor)")
	root.PersistentFlags().BoolVar(&a.asJSON, "json", false, "print one JSON document on standard output")
	root.AddCommand(verbs(a)...)
	root.AddCommand(topics()...)
	root.SetHelpCommand(newHelpCommand())
	for _, c := range root.Commands() {
		usageArgs(c)
	}
	return root
}

// usageArgs makes wrong arguments usage errors, on every level.
func usageArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{err}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		usageArgs(sub)
	}
}

// report prints what went wrong, with its remedy, and chooses the status.
func (a *app) report(cmd *cobra.Command, err error) int {
	var outcome outcomeError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &outcome):
		return int(outcome)
	}
	if a.asJSON {
		a.printJSON(errorDocument{Schema: "proctor/error/v1", Error: err.Error(), Hint: a.pasteable(hintOf(err)), Exit: exitOf(err)})
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		a.complain("error: " + display.Escape(line))
	}
	if hint := hintOf(err); hint != "" {
		a.complain("hint: " + a.pasteable(hint))
	}
	var usage *usageError
	if errors.As(err, &usage) {
		_, _ = fmt.Fprintf(a.err, "%s\n", strings.TrimSpace(cmd.UsageString()))
	}
	code := exitOf(err)
	var later *failedError
	if code == exitRefused && !errors.As(err, &later) {
		a.complain("nothing was started")
	}
	return code
}

type errorDocument struct {
	Schema string `json:"schema"`
	Error  string `json:"error"`
	Hint   string `json:"hint"`
	Exit   int    `json:"exit"`
}

// pasteable makes a command of ours mean the same home, and the same daemon, when
// it is pasted.
func (a *app) pasteable(command string) string {
	rest, ours := strings.CutPrefix(command, "proctor ")
	if !ours {
		return command
	}
	words := []string{"proctor"}
	if a.homeDir != "" {
		dir, err := filepath.Abs(a.homeDir)
		if err != nil {
			return command
		}
		words = append(words, "--home", dir)
	}
	if a.dockerHost != "" {
		words = append(words, "--docker-host", a.dockerHost)
	}
	if a.containerd.address != "" {
		words = append(words, "--containerd-address", a.containerd.address)
	}
	if a.containerd.namespace != "" {
		words = append(words, "--containerd-namespace", a.containerd.namespace)
	}
	if same := display.Command(words...); same != "" {
		return same + " " + rest
	}
	return command
}

func (a *app) complain(text string) { _, _ = fmt.Fprintf(a.err, "proctor: %s\n", text) }

// exitOf tells a refusal, where nothing was started, from what could not be
// established.
func exitOf(err error) int {
	var (
		step   *launch.StepError
		failed *failedError
	)
	switch {
	case errors.As(err, &failed):
		return failed.code
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errInterrupted):
		return exitIndeterminate
	case errors.As(err, &step) && !step.Refused():
		return exitIndeterminate
	}
	return exitRefused
}

// failedError is an error after something was started.
type failedError struct {
	err  error
	code int
}

func (e *failedError) Error() string { return e.err.Error() }
func (e *failedError) Unwrap() error { return e.err }

func hintOf(err error) string {
	var (
		hint        *hintError
		step        *launch.StepError
		unavailable *sandbox.UnavailableError
		refused     *sandbox.RefusedError
	)
	switch {
	case errors.As(err, &hint):
		return hint.hint
	case errors.Is(err, home.ErrNotInitialised):
		return "proctor init"
	case errors.As(err, &step) && step.Hint != "":
		return step.Hint
	case errors.As(err, &unavailable):
		return unavailable.Remedy
	case errors.As(err, &refused) && refused.Remedy != "":
		return refused.Remedy
	case errors.As(err, &refused) && refused.Waiver != "":
		return "add this to the same command: --allow " + string(refused.Waiver)
	}
	return ""
}

// home opens the operator's home directory of proctor.
func (a *app) home() (*home.Home, error) {
	dir := a.homeDir
	if dir == "" {
		state := a.env("XDG_STATE_HOME")
		if state == "" {
			user := a.env("HOME")
			if user == "" {
				return nil, &hintError{errors.New("HOME is not set"), "set HOME, or use --home DIR"}
			}
			state = filepath.Join(user, ".local", "state")
		}
		dir = filepath.Join(state, "proctor")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return home.Open(dir)
}

// policyPath is where the operator's policy is, unless a flag says otherwise.
func (a *app) policyPath(h *home.Home) string {
	if a.homeDir != "" {
		return filepath.Join(h.Dir(), "policy.yaml")
	}
	config := a.env("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(a.env("HOME"), ".config")
	}
	return filepath.Join(config, "proctor", "policy.yaml")
}
