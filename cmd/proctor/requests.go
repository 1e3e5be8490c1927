package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/wire"
)

func newRequestsCommand(a *app) *cobra.Command {
	session := ""
	cmd := &cobra.Command{
		Use: "requests", Short: "See and answer what the agents of sessions ask for",
		Long: `A refused agent may ask, and wait; only these verbs answer. What is approved is what was
shown: a request that changed since is refused.`,
	}
	cmd.PersistentFlags().StringVar(&session, "session", "", "the session that is meant (default: the running ones)")
	approve := newRequestsAnswerCommand(a, &session, "approve", "Approve a request as it was shown")
	deny := newRequestsAnswerCommand(a, &session, "deny", "Deny a request; the agent is told the reason")
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List every request, the waiting ones too", Args: cobra.NoArgs,
			Example:     "  proctor requests list\n  proctor requests list --session 7f3k2q9abcde --json",
			Annotations: schema("proctor/requests/v1"),
			RunE:        func(cmd *cobra.Command, _ []string) error { return a.requestsList(cmd.Context(), session) },
		},
		&cobra.Command{
			Use: "show ID", Short: "Show what a request asks for, and the commands that answer it", Args: cobra.ExactArgs(1),
			Example:     "  proctor requests show r-4\n  proctor requests show r-4 --session 7f3k2q9abcde",
			Annotations: schema("proctor/requests/v1"),
			RunE:        func(cmd *cobra.Command, args []string) error { return a.requestsShow(cmd.Context(), session, args[0]) },
		},
		approve, deny,
	)
	return cmd
}

// requestRow is a request of a session.
type requestRow struct {
	Session string `json:"session"`
	wire.RequestStatus
	product string
}

type requestsDocument struct {
	Schema     string       `json:"schema"` // "proctor/requests/v1"
	Done       string       `json:"done"`   // approved or denied; "" for a list
	Requests   []requestRow `json:"requests"`
	Content    []byte       `json:"content,omitempty"` // a file's, its first 64 KiB
	References []string     `json:"references"`
	// Packages is what a package's request would approve with --closure; its own
	// identity is the first.
	Packages []wire.Package `json:"packages"`
}

// requestsOf asks one session.
func (a *app) requestsOf(ctx context.Context, st home.State, req wire.RequestsRequest) (wire.RequestsReply, error) {
	var reply wire.RequestsReply
	h, err := a.home()
	if err != nil {
		return reply, err
	}
	if err := a.outside(string(st.Product), h.Dir()); err != nil {
		return reply, err
	}
	e, err := a.openEngine(ctx, h, engineOptions{name: st.Engine})
	if err != nil {
		return reply, err
	}
	defer func() { _ = e.close() }()
	req.Schema, req.By = "proctor/requests/v1", hostUser()
	return e.launcher.Requests(ctx, st.Session, req)
}

// asked are the sessions that are meant: the one that is named, or all that run.
func (a *app) asked(session string) ([]home.State, error) {
	if session != "" {
		_, st, err := a.known(session)
		return []home.State{st}, err
	}
	h, err := a.home()
	if err != nil {
		return nil, err
	}
	ids, err := h.Sessions()
	if err != nil {
		return nil, err
	}
	var all []home.State
	for _, id := range ids {
		st, err := h.State(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if h.Busy(id) {
			all = append(all, st)
		}
	}
	return all, nil
}

func (a *app) allRequests(ctx context.Context, session string) ([]requestRow, error) {
	sessions, err := a.asked(session)
	if err != nil {
		return nil, err
	}
	rows := []requestRow{}
	for _, st := range sessions {
		reply, err := a.requestsOf(ctx, st, wire.RequestsRequest{Act: "list"})
		if err != nil {
			return nil, fmt.Errorf("session %s: %w", st.Session, err)
		}
		for _, r := range reply.Requests {
			rows = append(rows, requestRow{st.Session, r, string(st.Product)})
		}
	}
	return rows, nil
}

func (a *app) requestsList(ctx context.Context, session string) error {
	rows, err := a.allRequests(ctx, session)
	if err != nil {
		return err
	}
	if a.asJSON {
		a.printJSON(requestsDocument{Schema: "proctor/requests/v1", Requests: rows, References: []string{}, Packages: []wire.Package{}})
		return nil
	}
	if len(rows) == 0 {
		a.complain("no agent asks for anything")
		return nil
	}
	var cells [][]string
	waiting := ""
	for _, r := range rows {
		asked := display.Age(r.Asked, time.Now())
		if !terminal(a.out, a.env) {
			asked = r.Asked.UTC().Format(time.RFC3339)
		}
		cells = append(cells, []string{r.ID, r.Session, r.State, asked, r.Subject.Kind, display.Escape(r.Subject.Name())})
		if r.State == wire.RequestWaiting && waiting == "" {
			waiting = "proctor requests show " + r.ID + " --session " + r.Session
		}
	}
	a.table("ID\tSESSION\tSTATE\tASKED\tKIND\tWANTS", cells)
	if waiting != "" {
		a.complain("hint: " + a.pasteable(waiting))
	}
	return nil
}

// oneRequest finds the session that a request's id means.
func (a *app) oneRequest(ctx context.Context, session, id string) (home.State, error) {
	if session != "" {
		_, st, err := a.known(session)
		return st, err
	}
	rows, err := a.allRequests(ctx, "")
	if err != nil {
		return home.State{}, err
	}
	var have []string
	for _, r := range rows {
		if r.ID == id {
			have = append(have, r.Session)
		}
	}
	switch len(have) {
	case 0:
		return home.State{}, &hintError{fmt.Errorf("no running session has a request %q; for one that ended, name it with --session", id), "proctor requests list"}
	case 1:
		_, st, err := a.known(have[0])
		return st, err
	}
	return home.State{}, &usageError{fmt.Errorf("request %s is one of each of %s: name one with --session", id, strings.Join(have, ", "))}
}

func (a *app) requestsShow(ctx context.Context, session, id string) error {
	st, err := a.oneRequest(ctx, session, id)
	if err != nil {
		return err
	}
	reply, err := a.requestsOf(ctx, st, wire.RequestsRequest{Act: "show", ID: id})
	if err != nil {
		return err
	}
	row := requestRow{st.Session, reply.Requests[0], string(st.Product)}
	what := a.wantedOf(ctx, st.Engine, row)
	if a.asJSON {
		a.printJSON(requestsDocument{
			Schema: "proctor/requests/v1", Requests: []requestRow{row}, Content: reply.Head, References: reply.References, Packages: what.identities(),
		})
		return nil
	}
	a.printRequest(row, reply, what)
	return nil
}

func (a *app) printRequest(r requestRow, reply wire.RequestsReply, what wanted) {
	now := time.Now()
	say := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(a.out, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	state := r.State
	if state == wire.RequestWaiting {
		state += " " + display.Duration(now.Sub(r.Asked))
	}
	say("request", "%s, %s, session %s, product %s", r.ID, state, r.Session, display.Escape(r.product))
	say("wants", "%s %s", r.Subject.Kind, display.Escape(r.Subject.Name()))
	if r.Subject.Kind == wire.SubjectFile {
		say("content", "sha256:%s, %s", r.Subject.SHA256, display.Size(reply.Size))
	}
	for _, line := range what.lines() {
		say(line[0], "%s", line[1])
	}
	before := "nothing is recorded for it"
	if len(reply.Records) > 0 {
		rec := reply.Records[0]
		before = fmt.Sprintf("%s sha256:%s, %s by %s%s", rec.Decision, rec.SHA256, display.Age(rec.Recorded, now), display.Escape(rec.By), until(rec.Expires))
	}
	if r.Subject.Kind == wire.SubjectFile {
		say("before", "%s", before)
	}
	for _, ref := range reply.References {
		say("refers to", "%s (an approval of this does not cover it)", display.Escape(ref))
	}
	if r.Refused > 0 {
		say("refused", "%d times, %s to %s", r.Refused, r.First.Local().Format(time.TimeOnly), r.Last.Local().Format(time.TimeOnly))
	}
	if r.Text != "" {
		_, _ = fmt.Fprintf(a.out, "agent says (not checked): \"%s\"\n", display.Escape(r.Text))
	}
	a.printContent(trustShown{Content: reply.Head, Size: reply.Size})
	if r.State != wire.RequestWaiting {
		if r.Answer != "" {
			say("answered", "%s", display.Escape(r.Answer))
		}
		return
	}
	_, _ = fmt.Fprintln(a.out)
	for _, c := range what.approvals(r) {
		say("approve", "%s", a.pasteable(c))
	}
	say("deny", "%s", a.pasteable("proctor requests deny "+r.ID+" --session "+r.Session+" --expect "+r.SHA256))
}

func newRequestsAnswerCommand(a *app, session *string, act, short string) *cobra.Command {
	var expect, reason, expires string
	yes, whole := false, false
	cmd := &cobra.Command{
		Use: act + " ID", Short: short, Args: cobra.ExactArgs(1),
		Long: short + `. --expect is the digest that proctor requests show printed; without it the request is
shown on a terminal, and a yes is asked for.`,
		Example: "  proctor requests " + act + " r-4\n" +
			"  proctor requests " + act + " r-4 --session 7f3k2q9abcde --expect 8d0f6a4e2b1c7d9f8d0f6a4e2b1c7d9f8d0f6a4e2b1c7d9f8d0f6a4e2b1c7d9f",
		Annotations: schema("proctor/requests/v1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := wire.RequestsRequest{Act: act, ID: args[0], Expect: expect, Reason: reason}
			return a.requestsAnswer(cmd.Context(), *session, req, answerOptions{expires, yes, whole})
		},
	}
	cmd.Flags().StringVar(&expect, "expect", "", "digest of the request as it was shown")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the agent and the record")
	cmd.Flags().BoolVar(&yes, "yes", false, "show it, and take that for a yes")
	if act == "approve" {
		cmd.Flags().BoolVar(&whole, "closure", false, "approve every package that installing the one brings, too")
		cmd.Flags().StringVar(&expires, "expires", "", "when the approval ends: 90m, 12h, 30d, or a date as 2026-12-31")
	}
	return cmd
}

type answerOptions struct {
	expires string
	yes     bool
	closure bool
}

func (a *app) requestsAnswer(ctx context.Context, session string, req wire.RequestsRequest, opts answerOptions) error {
	if req.Expect != "" && !isSHA256(req.Expect) {
		return &usageError{fmt.Errorf("--expect %q is not 64 hexadecimal digits in lower case", req.Expect)}
	}
	var err error
	if req.Expires, err = lifetime(opts.expires, time.Now()); err != nil {
		return err
	}
	st, err := a.oneRequest(ctx, session, req.ID)
	if err != nil {
		return err
	}
	shown, err := a.requestsOf(ctx, st, wire.RequestsRequest{Act: "show", ID: req.ID})
	if err != nil {
		return err
	}
	row := requestRow{st.Session, shown.Requests[0], string(st.Product)}
	var what wanted
	if req.Act == "approve" {
		if what = a.wantedOf(ctx, st.Engine, row); what.err != nil {
			return what.err
		}
	}
	if req.Expect == "" {
		if err := a.agreed(row, shown, what, req.Act, opts.yes); err != nil {
			return err
		}
		req.Expect = what.digest(row, opts.closure)
	}
	if what.any() {
		if now := what.digest(row, opts.closure); req.Expect != now {
			return fmt.Errorf("request %s, or what it resolves to, changed since you looked: it is %s now", row.ID, now)
		}
		req.Expect, req.Packages = row.SHA256, what.granted(opts.closure)
	}
	reply, err := a.requestsOf(ctx, st, req)
	if err != nil {
		return err
	}
	a.answeredRequest(row, req, reply)
	return nil
}

// agreed shows the request and asks; what was shown is what is answered.
func (a *app) agreed(row requestRow, shown wire.RequestsReply, what wanted, act string, yes bool) error {
	asks := terminal(a.err, a.env) && terminal(a.in, a.env)
	if !asks && !yes {
		return &hintError{fmt.Errorf("%s what was shown: --expect DIGEST, or --yes", act), "proctor requests show " + row.ID + " --session " + row.Session}
	}
	a.printRequest(row, shown, what)
	if yes {
		return nil
	}
	_, _ = fmt.Fprintf(a.err, "%s %s? [y/N] ", act, row.ID)
	line, _ := bufio.NewReader(a.in).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New("not answered; nothing was recorded")
	}
	return nil
}

func (a *app) answeredRequest(row requestRow, req wire.RequestsRequest, reply wire.RequestsReply) {
	word := map[string]string{"approve": "approved", "deny": "denied"}[req.Act]
	row.State, row.Answer = word, req.Reason
	if a.asJSON {
		a.printJSON(requestsDocument{Schema: "proctor/requests/v1", Done: word, Requests: []requestRow{row}, References: []string{}, Packages: append([]wire.Package{}, req.Packages...)})
		return
	}
	what := ""
	for _, r := range reply.Records {
		what = " sha256:" + r.SHA256 + until(r.Expires)
	}
	if n := len(req.Packages); n > 0 {
		what = " " + req.Packages[0].Integrity + until(req.Expires)
		if n > 1 {
			what += fmt.Sprintf(", and %s that it brings", display.Plural(int64(n-1), "package"))
		}
	}
	_, _ = fmt.Fprintf(a.out, "%s request %s of session %s: %s %s%s\n", word, row.ID, row.Session, row.Subject.Kind, display.Escape(row.Subject.Name()), what)
}
