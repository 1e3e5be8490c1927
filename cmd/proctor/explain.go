package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/display"
)

func newExplainCommand(a *app) *cobra.Command {
	engine := ""
	cmd := &cobra.Command{
		Use:   "explain PACKAGE|PATH|HOST [-- COMMAND [ARG...]]",
		Short: "Say how something would be decided now, and by which rule, without recording anything",
		Long: `A package is NAME or NAME@VERSION; the registry of the policy is asked what it is exactly.
With a command, it is judged as what that command runs: only npx with exactly this version. A
path begins with / or ./ or has a slash in it; its content of now is judged. A host is
NAME:PORT or ADDRESS:PORT. Nothing is recorded, and nothing is run.`,
		Example: `  proctor explain left-pad@1.3.0
  proctor explain left-pad@1.3.0 -- npx -y left-pad@1.3.0
  proctor explain ./.envrc
  proctor explain api.example.com:443
  proctor explain @modelcontextprotocol/server-filesystem --json`,
		Annotations: schema("proctor/explain/v1"),
		Args: func(cmd *cobra.Command, args []string) error {
			if n := len(args); n == 0 || n > 1 && cmd.ArgsLenAtDash() != 1 {
				return errors.New("one package, path or host is needed, and a command only after --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.explain(cmd.Context(), engine, args[0], args[1:])
		},
	}
	cmd.Flags().StringVar(&engine, "engine", "", "engine whose ledger is meant (default: the only one)")
	return cmd
}

// subject is what a word that proctor is to explain looks like.
type subject int

const (
	aPackage subject = iota
	aPath
	aHost
)

// subjectOf tells a path from a host from a package. What could be two of them
// is a package, except with a port behind it.
func subjectOf(word string) subject {
	switch {
	case word == "." || word == ".." || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../"):
		return aPath
	case regexp.MustCompile(`^[^@/\s]+:[0-9]{1,5}$`).MatchString(word):
		return aHost
	case strings.Contains(word, "/") && !strings.HasPrefix(word, "@"):
		return aPath
	}
	return aPackage
}

func (a *app) explain(ctx context.Context, engine, word string, command []string) error {
	if kind := subjectOf(word); kind != aPackage && len(command) > 0 {
		return &usageError{errors.New("a command runs a package; it goes with nothing else")}
	}
	switch subjectOf(word) {
	case aPath:
		return a.explainPath(ctx, engine, word)
	case aHost:
		return a.explainHost(ctx, engine, word)
	}
	return a.explainPackage(ctx, engine, word, command)
}

// explanation is how something would be decided now.
type explanation struct {
	Schema  string `json:"schema"` // "proctor/explain/v1"
	Kind    string `json:"kind"`   // package, path or host
	Subject string `json:"subject"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
	Rule    string `json:"rule"`
	// Identity is the exact thing that was judged, where there is one.
	Identity string `json:"identity"`
	Detail   string `json:"detail"`
	Remedy   string `json:"remedy"` // a command, or advice
}

func (a *app) printExplanation(e explanation) {
	e.Schema = "proctor/explain/v1"
	if a.asJSON {
		a.printJSON(e)
		return
	}
	row := func(name, text string) {
		if text != "" {
			_, _ = fmt.Fprintf(a.out, "%-10s %s\n", name, text)
		}
	}
	word := "refused"
	if e.Allowed {
		word = "allowed"
	}
	row(e.Kind, display.Escape(e.Subject))
	row("identity", display.Escape(e.Identity))
	row("decision", word+": "+e.Reason)
	row("rule", display.Escape(e.Rule))
	row("detail", display.Escape(e.Detail))
	row("next", e.Remedy)
}
