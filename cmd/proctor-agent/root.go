package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox/inside"
)

// exitError carries the status that the process ends with, and nothing to print.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// run is the whole program; it returns the exit status.
func run(ctx context.Context, args []string, stdin *os.File, stdout, stderr io.Writer) (code int) {
	defer func() {
		if p := recover(); p != nil {
			_, _ = fmt.Fprintf(stderr, "proctor-agent: error: internal: %v\n", p)
			code = 3
		}
	}()
	root := &cobra.Command{
		Use:           "proctor-agent",
		Short:         "Runs an agent inside its container, and asks the supervisor",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(newInitCommand(stdin, stderr), newSessionCommand(stdout), newMCPCommand(stdin, stdout), newTrustCommand(stdout), newRequestCommand(stdout), newFenceCommand())
	err := root.ExecuteContext(ctx)
	var status exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	default:
		for line := range strings.SplitSeq(err.Error(), "\n") {
			_, _ = fmt.Fprintf(stderr, "proctor-agent: error: %s\n", line)
		}
		return 2
	}
}

func newInitCommand(stdin *os.File, stderr io.Writer) *cobra.Command {
	var opts struct {
		socket   string
		lifeline bool
		readOnly []string
		writable []string
		entries  string
		lay      []string
		bridges  []string
		dir      string
		terminal bool
		report   string
		timeout  time.Duration
		grace    time.Duration
	}
	cmd := &cobra.Command{
		Use:   "init -- COMMAND [ARG...]",
		Short: "Be the container's first process: prove the mounts, run COMMAND, reap, end with its status",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg := inside.Config{
				Argv:     args,
				Dir:      opts.dir,
				Socket:   opts.socket,
				ReadOnly: opts.readOnly,
				Writable: opts.writable,
				Stderr:   stderr,
				Terminal: opts.terminal,
				Stdin:    stdin,
				Lifeline: opts.lifeline,
				Report:   opts.report,
				Timeout:  opts.timeout,
				Grace:    opts.grace,
			}
			var err error
			if cfg.Entries, err = inside.ParseEntries(opts.entries); err != nil {
				return err
			}
			if cfg.Lay, err = inside.ParseLay(opts.lay); err != nil {
				return err
			}
			if cfg.Bridges, err = inside.ParseBridges(opts.bridges); err != nil {
				return err
			}
			return exitError(inside.Run(cmd.Context(), cfg))
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVar(&opts.socket, "supervisor", "", "the supervisor's socket: connected before COMMAND starts, COMMAND ends when it is lost")
	f.StringVar(&opts.report, "report", "", "the supervisor's socket where no launcher watches: it is told how COMMAND ended, and this process ends with 0")
	f.DurationVar(&opts.timeout, "timeout", 0, "end COMMAND after this time; 0 is never")
	f.DurationVar(&opts.grace, "grace", 10*time.Second, "from SIGTERM to SIGKILL after --timeout")
	f.BoolVar(&opts.lifeline, "lifeline", false, "end COMMAND when standard input ends; COMMAND's own input is empty")
	f.StringArrayVar(&opts.readOnly, "read-only", nil, "a directory that must refuse a write with EROFS")
	f.StringArrayVar(&opts.writable, "writable", nil, "a directory that must take a write")
	f.StringVar(&opts.entries, "entries", "", "DIR=N: the directory must hold exactly N entries")
	f.StringArrayVar(&opts.lay, "lay", nil, "FROM=DIR=TO: put the file FROM at TO below DIR before COMMAND starts, following no link")
	f.StringArrayVar(&opts.bridges, "bridge", nil, "PORT=SOCKET: carry connections to PORT of the loopback interface to SOCKET")
	f.StringVar(&opts.dir, "dir", "", "working directory of COMMAND")
	f.BoolVar(&opts.terminal, "terminal", false, "standard input is a terminal, and COMMAND's")
	return cmd
}
