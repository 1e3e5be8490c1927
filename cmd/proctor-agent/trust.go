package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox/inside"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// questions is what the verbs that ask the supervisor share.
type questions struct {
	socket string
	asJSON bool
	path   []byte
	out    io.Writer
}

func newTrustCommand(stdout io.Writer) *cobra.Command {
	q := &questions{out: stdout}
	cmd := &cobra.Command{Use: "trust", Short: "Ask whether the operator approved a file's content"}
	decide := &cobra.Command{
		Use:   "decide FILE",
		Short: "Show the supervisor a file's content: status 0 is a yes, 1 a no",
		Args:  q.onePath,
		RunE:  func(cmd *cobra.Command, args []string) error { return q.decide(cmd.Context(), args) },
	}
	q.flags(decide)
	q.pathFlag(decide)
	cmd.AddCommand(decide)
	return cmd
}

func (q *questions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&q.socket, "supervisor", inside.SocketPath, "the supervisor's socket")
	cmd.Flags().BoolVar(&q.asJSON, "json", false, "print the supervisor's answer as it came")
}

func (q *questions) pathFlag(cmd *cobra.Command) {
	cmd.Flags().BytesBase64Var(&q.path, "path-base64", nil, "the path's bytes in base64, instead of FILE")
}

func (q *questions) onePath(_ *cobra.Command, args []string) error {
	if (len(args) == 1) == (len(q.path) > 0) || len(args) > 1 {
		return errors.New("one file is needed: FILE, or --path-base64")
	}
	return nil
}

func (q *questions) file(args []string) (string, error) {
	if len(q.path) > 0 {
		return filepath.Abs(string(q.path))
	}
	return filepath.Abs(args[0])
}

func (q *questions) decide(ctx context.Context, args []string) error {
	path, err := q.file(args)
	if err != nil {
		return err
	}
	d, err := inside.DecideFile(ctx, q.socket, path)
	if err != nil {
		return err
	}
	if q.asJSON {
		q.print(d)
	} else {
		q.say(d)
	}
	if !d.Allowed {
		return exitError(1)
	}
	return nil
}

func (q *questions) print(v any) {
	if b, err := json.MarshalIndent(v, "", "  "); err == nil {
		_, _ = fmt.Fprintf(q.out, "%s\n", b)
	}
}

func (q *questions) say(d wire.Decided) {
	name := display.Escape(d.Subject.Name())
	if d.Allowed {
		_, _ = fmt.Fprintf(q.out, "proctor: approved: %s\n", name)
		return
	}
	_, _ = fmt.Fprintf(q.out, "proctor: refused: %s: %s\n", name, d.Reason)
	if d.Note != "" {
		_, _ = fmt.Fprintf(q.out, "proctor: the operator says: %s\n", display.Escape(d.Note))
	}
	if d.Remedy != "" {
		_, _ = fmt.Fprintf(q.out, "proctor: ask: %s\n", d.Remedy)
	}
}

func newRequestCommand(stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "request",
		Short: "Ask the operator for a file, a package or a host, and for the answer",
		Long: `Only the operator can answer. Status 0 is an approval, 1 a denial, and 4 that there is no
answer yet.`,
	}
	one := func(use, short string, subject func(context.Context, *questions, []string) (wire.Subject, error), path bool) {
		q := &questions{out: stdout}
		var reason string
		var wait time.Duration
		sub := &cobra.Command{
			Use: use, Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				s, err := subject(cmd.Context(), q, args)
				if err != nil {
					return err
				}
				return q.request(cmd.Context(), s, reason, wait)
			},
		}
		q.flags(sub)
		if path {
			q.pathFlag(sub)
			sub.Args = q.onePath
		}
		sub.Flags().StringVar(&reason, "reason", "", "why, for the operator; at most 1 KiB")
		sub.Flags().DurationVar(&wait, "wait", 0, "wait so long for the answer")
		cmd.AddCommand(sub)
	}
	one("file FILE", "Ask for a file's content of now", fileSubject, true)
	one("package NAME@VERSION", "Ask for a package", func(_ context.Context, _ *questions, args []string) (wire.Subject, error) {
		return wire.Subject{Kind: wire.SubjectPackage, Package: args[0]}, nil
	}, false)
	one("host HOST:PORT", "Ask for a host", func(_ context.Context, _ *questions, args []string) (wire.Subject, error) {
		return wire.Subject{Kind: wire.SubjectHost, Host: args[0]}, nil
	}, false)
	cmd.AddCommand(newAnswerCommand(stdout), newRequestsCommand(stdout))
	return cmd
}

func fileSubject(ctx context.Context, q *questions, args []string) (wire.Subject, error) {
	path, err := q.file(args)
	if err != nil {
		return wire.Subject{}, err
	}
	d, err := inside.DecideFile(ctx, q.socket, path)
	return d.Subject, err
}

// noAnswer is the status of a request that nobody answered yet.
const noAnswer = 4

func (q *questions) request(ctx context.Context, s wire.Subject, reason string, wait time.Duration) error {
	r, err := inside.Request(ctx, q.socket, s, reason)
	if err == nil && wait > 0 && r.State == wire.RequestWaiting {
		r, err = inside.Answer(ctx, q.socket, r.ID, wait)
	}
	if err != nil {
		return err
	}
	return q.answered(r)
}

func (q *questions) answered(r wire.Request) error {
	if q.asJSON {
		q.print(r)
	} else {
		_, _ = fmt.Fprintf(q.out, "proctor: request %s: %s: %s\n", r.ID, display.Escape(r.Subject.Name()), r.State)
		if r.Answer != "" {
			_, _ = fmt.Fprintf(q.out, "proctor: the operator says: %s\n", display.Escape(r.Answer))
		}
	}
	switch r.State {
	case wire.RequestApproved:
		return nil
	case wire.RequestDenied:
		return exitError(1)
	}
	return exitError(noAnswer)
}

func newAnswerCommand(stdout io.Writer) *cobra.Command {
	q := &questions{out: stdout}
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "answer ID", Short: "Ask for the answer to a request", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := inside.Answer(cmd.Context(), q.socket, args[0], wait)
			if err != nil {
				return err
			}
			return q.answered(r)
		},
	}
	q.flags(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait so long for the answer")
	return cmd
}

func newRequestsCommand(stdout io.Writer) *cobra.Command {
	q := &questions{out: stdout}
	cmd := &cobra.Command{
		Use: "list", Short: "List this session's requests", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := inside.Requests(cmd.Context(), q.socket)
			if err != nil {
				return err
			}
			if q.asJSON {
				q.print(all)
				return nil
			}
			for _, r := range all {
				_, _ = fmt.Fprintf(stdout, "%s\t%s\t%s\t%s\n", r.ID, r.State, r.Subject.Kind, display.Escape(r.Subject.Name()))
			}
			return nil
		},
	}
	q.flags(cmd)
	return cmd
}
