package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/seal"
)

func newDiffCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "diff SESSION",
		Short: "Show what a session changed, as the reader computes it",
		Long: `Compares the product of now with the session's sealed copy. The text is hostile: it is
escaped before it is shown.`,
		Example: `  proctor diff 7f3k2q9abcde
  proctor diff --json 7f3k2q9abcde`,
		Annotations: schema("proctor/diff/v1"),
		Args:        cobra.ExactArgs(1),
		RunE:        func(cmd *cobra.Command, args []string) error { return a.diff(cmd.Context(), args[0]) },
	}
}

func (a *app) diff(ctx context.Context, id string) error {
	h, st, err := a.known(id)
	if err != nil {
		return err
	}
	e, err := a.openEngine(ctx, h, engineOptions{name: st.Engine})
	if err != nil {
		return err
	}
	defer func() { _ = e.close() }()
	_, statement, err := e.verifiedSeal(id)
	if err != nil {
		return err
	}
	if err := checkManifest(h, id, statement.Predicate.Manifest.SHA256); err != nil {
		return err
	}
	var doc bytes.Buffer
	lines := display.NewLines(a.out, "")
	if a.asJSON {
		lines = display.NewLines(&doc, "")
	}
	err = e.launcher.Diff(ctx, id, lines)
	lines.Flush()
	switch {
	case err != nil:
	case a.asJSON:
		a.printJSON(struct {
			Schema  string   `json:"schema"`
			Session string   `json:"session"`
			Lines   []string `json:"lines"` // escaped
		}{"proctor/diff/v1", id, textLines(doc.String())})
	case statement.Predicate.Verdict == seal.Pass:
		a.complain("hint: " + a.pasteable("proctor apply "+id))
	}
	if errors.Is(lines.Err(), syscall.EPIPE) {
		return err // whoever reads has seen enough
	}
	return errors.Join(err, lines.Err())
}

// textLines are the lines of a text, without their ends.
func textLines(text string) []string {
	if text == "" {
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
