package main

import (
	"context"
	"strings"
)

// sessionsMetrics prints what a running session's serve counts. The text is the
// supervisor's own: it holds numbers and names from closed sets only.
func (a *app) sessionsMetrics(ctx context.Context, id string) error {
	h, st, err := a.known(id)
	if err != nil {
		return err
	}
	e, err := a.openEngine(ctx, h, engineOptions{name: st.Engine})
	if err != nil {
		return err
	}
	defer func() { _ = e.close() }()
	if !a.asJSON {
		return e.launcher.Metrics(ctx, id, a.out)
	}
	var text strings.Builder
	if err := e.launcher.Metrics(ctx, id, &text); err != nil {
		return err
	}
	a.printJSON(struct {
		Schema  string `json:"schema"`
		Session string `json:"session"`
		Text    string `json:"text"` // Prometheus' text format
	}{"proctor/metrics/v1", id, text.String()})
	return nil
}
