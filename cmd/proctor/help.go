package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newHelpCommand is `proctor help`; a word that is no verb and no topic is a
// usage error, as it is everywhere else.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB | TOPIC]",
		Short: "Explain a verb, or environment, exit-codes or formatting",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := checkVerb(cmd.Root(), args)
			if err != nil {
				return err
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// exitCode is one exit status and what it means.
type exitCode struct {
	Code    int
	Meaning string
}

func exitCodes() []exitCode {
	return []exitCode{
		{exitOK, "PASS, or the verb did what it says"},
		{exitFail, "FAIL, also a genuine seal that says FAIL; not verified; nothing matched"},
		{exitRefused, "refused: usage, policy, key or boundary; nothing was started"},
		{exitIndeterminate, "INDETERMINATE: something could not be established, an internal error, interrupted twice"},
	}
}

// variable is one environment variable that proctor reads.
type variable struct{ Name, Meaning string }

func variables() []variable {
	return []variable{
		{"HOME", "where the two directories below are, if they are not set"},
		{"XDG_STATE_HOME", "keys, control and the launcher's own state are in its directory proctor (default: ~/.local/state); --home overrides it"},
		{"XDG_CONFIG_HOME", "the policy is its proctor/policy.yaml (default: ~/.config); with --home it is the home's policy.yaml"},
		{"XDG_CACHE_HOME", "runtimes that make has built are found in its proctor/bin (default: ~/.cache)"},
		{"XDG_RUNTIME_DIR", "state of running containers of an ordinary user, engine local"},
		{"PROCTOR_DOCKER_HOST", "the daemon of engine docker, unix:///run/docker.sock for example"},
		{"PROCTOR_CONTAINERD_ADDRESS", "the socket of engine containerd, /run/containerd/containerd.sock for example"},
		{"PROCTOR_CONTAINERD_NAMESPACE", "the namespace of engine containerd"},
		{"TERM", "with dumb, no live line and no columns"},
	}
}

// topics are what can be read but not run.
func topics() []*cobra.Command {
	var codes, env strings.Builder
	for _, c := range exitCodes() {
		_, _ = fmt.Fprintf(&codes, "  %d  %s\n", c.Code, c.Meaning)
	}
	for _, v := range variables() {
		_, _ = fmt.Fprintf(&env, "  %-20s %s\n", v.Name, v.Meaning)
	}
	return []*cobra.Command{
		{
			Use:   "environment",
			Short: "The environment variables that proctor reads",
			Long:  "What proctor reads from its environment. No key and no password is among it.\n\n" + env.String() + "\nNothing of it reaches an agent or a check but what the policy names in env_pass.",
		},
		{
			Use:   "exit-codes",
			Short: "What the exit statuses mean",
			Long:  "Every verb ends with one of these, with --json too.\n\n" + codes.String(),
		},
		{
			Use:   "formatting",
			Short: "What is printed where, and how to read it in a program",
			Long: `The result goes to standard output, everything else to standard error. Each of the two is
judged on its own: a live line and columns only on a terminal; elsewhere a list is lines of
tab-separated fields without a header, uncut.

With --json, standard output is one document with the name of its schema, also for a FAIL,
a refusal and an error, and with the same exit status.

Text that is not ours (paths, output of agents and checks, differences) is escaped: \n, \r,
\t, \xNN for a byte, \uNNNN for a character that would not show. Backslashes are doubled
where anything was escaped. Output of an agent starts with "agent| ", of a check with
"check| ". A command to paste is the last thing on its line, quoted for sh.`,
		},
	}
}

// schemaKey names the annotation of a verb that says what --json prints.
const schemaKey = "schema"

func schema(name string) map[string]string { return map[string]string{schemaKey: name} }
