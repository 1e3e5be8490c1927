package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sidecar/display"
)

func newSessionsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List, show, stop, remove and prune sessions",
		Example: `  proctor sessions
  proctor sessions --json`,
		Annotations: schema("proctor/sessions/v1"),
		Args:        cobra.NoArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.sessionsList() },
	}
	one := func(use, short, doc string, do func(context.Context, string) error) *cobra.Command {
		return &cobra.Command{
			Use: use + " SESSION", Short: short, Args: cobra.ExactArgs(1), Annotations: schema(doc),
			Example: "  proctor sessions " + use + " 7f3k2q9abcde\n  proctor sessions " + use + " --json 7f3k2q9abcde",
			RunE:    func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), args[0]) },
		}
	}
	var olderThan time.Duration
	prune := &cobra.Command{
		Use:   "prune",
		Short: "Remove the stages and control parts of ended sessions; their seals stay",
		Example: `  proctor sessions prune
  proctor sessions prune --older-than 168h`,
		Annotations: schema("proctor/done/v1"),
		Args:        cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.sessionsPrune(cmd.Context(), olderThan)
		},
	}
	prune.Flags().DurationVar(&olderThan, "older-than", 0, "only sessions that ended longer ago than this")
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List every session", Args: cobra.NoArgs,
			Example:     "  proctor sessions list\n  proctor sessions list --json",
			Annotations: schema("proctor/sessions/v1"),
			RunE:        func(*cobra.Command, []string) error { return a.sessionsList() },
		},
		one("show", "Show one session and its findings, each with its remedy", "proctor/run/v1", a.sessionsShow),
		one("metrics", "Print the numbers of a running session's doors, for Prometheus", "proctor/metrics/v1", a.sessionsMetrics),
		one("stop", "End a running session's agent; the audit still runs", "proctor/done/v1", a.sessionsStop),
		one("remove", "Remove an ended session's stage and control part; its seals stay", "proctor/done/v1", a.sessionsRemove),
		prune,
	)
	return cmd
}

type sessionRow struct {
	Session string    `json:"session"`
	State   string    `json:"state"`
	Verdict string    `json:"verdict"`
	Applied bool      `json:"applied"`
	Engine  string    `json:"engine"`
	Started time.Time `json:"started"`
	Product string    `json:"product"`
}

func (a *app) sessionsList() error {
	h, err := a.home()
	if err != nil {
		return err
	}
	ids, err := h.Sessions()
	if err != nil {
		return err
	}
	rows := make([]sessionRow, 0, len(ids))
	for _, id := range ids {
		st, err := h.State(id)
		if err != nil {
			rows = append(rows, sessionRow{Session: id, State: "unreadable"})
			continue
		}
		rows = append(rows, rowOf(h, st))
	}
	if a.asJSON {
		a.printJSON(struct {
			Schema   string       `json:"schema"`
			Sessions []sessionRow `json:"sessions"`
		}{"proctor/sessions/v1", rows})
		return nil
	}
	if len(rows) == 0 {
		a.complain("no sessions yet")
		a.complain("hint: " + a.pasteable("proctor run -- COMMAND"))
		return nil
	}
	now := time.Now()
	var cells [][]string
	for _, r := range rows {
		started := display.Age(r.Started, now)
		if !terminal(a.out, a.env) {
			started = r.Started.UTC().Format(time.RFC3339)
		}
		cells = append(cells, []string{r.Session, r.State, r.Verdict, r.Engine, started, display.Escape(r.Product)})
	}
	a.table("SESSION\tSTATE\tVERDICT\tENGINE\tSTARTED\tPRODUCT", cells)
	return nil
}

func rowOf(h *home.Home, st home.State) sessionRow {
	state := "ended"
	switch {
	case h.Busy(st.Session):
		state = "running: " + st.Phase
	case st.Phase != "ended":
		state = "dead in " + st.Phase
	case st.Applied:
		state = "applied"
	}
	return sessionRow{
		Session: st.Session, State: state, Verdict: st.Verdict, Applied: st.Applied,
		Engine: st.Engine, Started: st.Started, Product: string(st.Product),
	}
}

// known reads a session's state, with a remedy where there is none.
func (a *app) known(id string) (*home.Home, home.State, error) {
	h, err := a.home()
	if err != nil {
		return nil, home.State{}, err
	}
	st, err := h.State(id)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || !home.ValidSession(id) {
			err = fmt.Errorf("no session %q", id)
		}
		return nil, st, &hintError{err, "proctor sessions list"}
	}
	return h, st, nil
}

// sessionsStop sends the launcher the signal of a first Ctrl-C. The process is
// held by a descriptor first, so that a reused pid gets nothing.
func (a *app) sessionsStop(_ context.Context, id string) error {
	h, st, err := a.known(id)
	if err != nil {
		return err
	}
	if !h.Busy(id) {
		return &failedError{fmt.Errorf("session %s is not running", id), exitFail}
	}
	fd, err := unix.PidfdOpen(st.Launcher, 0)
	if err != nil {
		return fmt.Errorf("session %s: its launcher, process %d: %w", id, st.Launcher, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if home.Birth(st.Launcher) != st.Birth {
		return fmt.Errorf("session %s: process %d is not its launcher any more", id, st.Launcher)
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil {
		return fmt.Errorf("session %s: stop its launcher: %w", id, err)
	}
	a.say(fmt.Sprintf("told session %s to end its agent; the audit follows", id))
	return nil
}

func (a *app) say(text string) {
	if !a.asJSON {
		_, _ = fmt.Fprintln(a.out, text)
		return
	}
	a.printJSON(struct {
		Schema string `json:"schema"`
		Done   string `json:"done"`
	}{"proctor/done/v1", text})
}

func (a *app) sessionsRemove(ctx context.Context, id string) error {
	h, st, err := a.known(id)
	if err != nil {
		return err
	}
	if h.Busy(id) {
		return &hintError{fmt.Errorf("session %s is running", id), "proctor sessions stop " + id}
	}
	if err := a.removeSession(ctx, h, st); err != nil {
		return err
	}
	a.say(fmt.Sprintf("removed session %s; its seal stays in %s", id, h.SealPath(id)))
	return nil
}

func (a *app) removeSession(ctx context.Context, h *home.Home, st home.State) error {
	e, err := a.openEngine(ctx, h, engineOptions{name: st.Engine})
	if err != nil {
		return err
	}
	return errors.Join(e.launcher.Remove(ctx, st.Session), e.close())
}

func (a *app) sessionsPrune(ctx context.Context, olderThan time.Duration) error {
	h, err := a.home()
	if err != nil {
		return err
	}
	ids, err := h.Sessions()
	if err != nil {
		return err
	}
	var removed []string
	for _, id := range ids {
		st, err := h.State(id)
		if err != nil {
			return fmt.Errorf("session %s: %w", id, err)
		}
		if h.Busy(id) || st.Phase != "ended" || time.Since(st.Ended) < olderThan {
			continue
		}
		if err := a.removeSession(ctx, h, st); err != nil {
			return err
		}
		removed = append(removed, id)
	}
	if len(removed) == 0 {
		a.say("nothing to prune")
		return nil
	}
	a.say(fmt.Sprintf("removed %s: %s", display.Plural(int64(len(removed)), "session"), strings.Join(removed, " ")))
	return nil
}
