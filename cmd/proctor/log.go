package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/display"
)

func newLogCommand(a *app) *cobra.Command {
	follow := false
	cmd := &cobra.Command{
		Use:   "log SESSION",
		Short: "Print a session's record: everything that was decided or observed",
		Example: `  proctor log 7f3k2q9abcde
  proctor log --follow 7f3k2q9abcde`,
		Annotations: schema("proctor/log/v1"),
		Args:        cobra.ExactArgs(1),
		RunE:        func(cmd *cobra.Command, args []string) error { return a.log(cmd.Context(), args[0], follow) },
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as rows are written, until the session ends")
	return cmd
}

func (a *app) log(ctx context.Context, id string, follow bool) error {
	if follow && a.asJSON {
		return &usageError{errors.New("--json prints one document when all rows are there, and --follow each as it comes: use one of them")}
	}
	h, st, err := a.known(id)
	if err != nil {
		return err
	}
	e, err := a.openEngine(ctx, h, engineOptions{name: st.Engine})
	if err != nil {
		return err
	}
	defer func() { _ = e.close() }()
	if follow {
		done, ended := context.WithCancel(ctx)
		ctx = done
		defer ended()
		go a.crash().Guard(func() {
			defer ended()
			t := time.NewTicker(time.Second)
			defer t.Stop()
			for h.Busy(id) {
				select {
				case <-t.C:
				case <-ctx.Done():
					return
				}
			}
		})()
	}
	pr, pw := io.Pipe()
	printed := make(chan error, 1)
	go a.crash().Guard(func() {
		err := a.printRows(id, pr)
		_ = pr.CloseWithError(err) // the step ends, if this did
		printed <- err
	})()
	err = e.launcher.Log(ctx, id, follow, pw)
	_ = pw.Close()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, <-printed)
}

// recordRow is one row of a record, as its step wrote it.
type recordRow struct {
	Seq  uint64          `json:"seq"`
	Time time.Time       `json:"time"`
	Step string          `json:"step"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// printRows prints each row on a line of its own; with --json, all of them in
// one document.
func (a *app) printRows(session string, r io.Reader) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	rows := []recordRow{}
	for in.Scan() {
		var row recordRow
		if err := json.Unmarshal(in.Bytes(), &row); err != nil {
			return fmt.Errorf("row %d of the record: %w", len(rows)+1, err)
		}
		if a.asJSON {
			rows = append(rows, row)
			continue
		}
		_, _ = fmt.Fprintf(a.out, "%4d  %s  %-6s %-18s %s\n", row.Seq, row.Time.Format(time.RFC3339), row.Step, display.Escape(row.Kind), display.Escape(string(row.Data)))
	}
	if in.Err() == nil && a.asJSON && len(rows) > 0 {
		a.printJSON(struct {
			Schema  string      `json:"schema"`
			Session string      `json:"session"`
			Rows    []recordRow `json:"rows"`
		}{"proctor/log/v1", session, rows})
	}
	return in.Err()
}
