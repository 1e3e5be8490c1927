package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// newVerbCommands are the operator's verbs; the host side runs each in a
// short-lived container.
func newVerbCommands(layout steps.Layout, stdin io.Reader, stdout io.Writer) []*cobra.Command {
	known := &wire.Anchor{}
	layout.Known = known
	by, compromised := "", false
	initCmd := step("init", "Make the first root key and the ledger", func(cmd *cobra.Command) error {
		return steps.Init(cmd.Context(), layout, by, stdout)
	})
	initCmd.Flags().StringVar(&by, "by", "unknown", "host user, for the ledger")
	rotate := step("rotate", "Make a new root key", func(cmd *cobra.Command) error {
		reason := keys.Routine
		if compromised {
			reason = keys.Leaked
		}
		return steps.Rotate(cmd.Context(), layout, reason, by, stdout)
	})
	rotate.Flags().StringVar(&by, "by", "unknown", "host user, for the ledger")
	rotate.Flags().BoolVar(&compromised, "compromised", false, "end all trust in the old key")
	session := ""
	sealed := step("sealed", "Answer with what the ledger knows of a session's seals", func(cmd *cobra.Command) error {
		return steps.Sealed(cmd.Context(), layout, session, stdout)
	})
	sealed.Flags().StringVar(&session, "session", "", "the session's id")
	follow := false
	log := step("log", "Write a session's record, one row a line", func(cmd *cobra.Command) error {
		return steps.Log(cmd.Context(), layout, follow, stdin, stdout)
	})
	numbers := step("metrics", "Write the numbers of a session that runs, for Prometheus", func(cmd *cobra.Command) error {
		return steps.Metrics(cmd.Context(), layout, stdout)
	})
	log.Flags().BoolVar(&follow, "follow", false, "go on until standard input ends")
	epochs := step("keys", "Answer with the key epochs", func(cmd *cobra.Command) error {
		return steps.Keys(cmd.Context(), layout, stdout)
	})
	checkApply := step("check-apply", "Hold a seal, on standard input, against the ledger before it is applied", func(cmd *cobra.Command) error {
		return steps.CheckApply(cmd.Context(), layout, stdin, stdout)
	})
	checkSeal := step("check-seal", "Say of a seal, on standard input, what only the root key and the ledger can", func(cmd *cobra.Command) error {
		return steps.CheckSeal(cmd.Context(), layout, stdin, stdout)
	})
	trust := step("trust", "Answer or do what the operator asks about paths: request and content on standard input", func(cmd *cobra.Command) error {
		return steps.Trust(cmd.Context(), layout, stdin, stdout)
	})
	requests := step("requests", "Answer or do what the operator asks about a session's requests: request on standard input", func(cmd *cobra.Command) error {
		return steps.Requests(cmd.Context(), layout, stdin, stdout)
	})
	packages := step("packages", "List or record what the operator decided about packages, from a request on standard input", func(cmd *cobra.Command) error {
		return steps.Packages(cmd.Context(), layout, stdin, stdout)
	})
	hosts := step("hosts", "List or record what the operator decided about hosts, from a request on standard input", func(cmd *cobra.Command) error {
		return steps.Hosts(cmd.Context(), layout, stdin, stdout)
	})
	for _, cmd := range []*cobra.Command{rotate, sealed, epochs, checkApply, checkSeal, trust, requests, packages, hosts} {
		f := cmd.Flags()
		f.StringVar(&known.ControlID, "known-control", "", "control id that the launcher remembers; the ledger must contain what it knew")
		f.Uint64Var(&known.Count, "known-count", 0, "acts of the ledger that the launcher remembers")
		f.StringVar(&known.Hash, "known-hash", "", "hash of the ledger that the launcher remembers")
	}
	all := []*cobra.Command{numbers, initCmd, rotate, sealed, log, epochs, checkApply, checkSeal, trust, requests, packages, hosts}
	inPod := false
	for _, cmd := range all {
		cmd.Flags().BoolVar(&inPod, "in-pod", false, "keys are Secrets of a Kubernetes cluster")
		cmd.PreRun = func(*cobra.Command, []string) {
			if inPod {
				layout = layout.KeysAreSecrets()
			}
		}
	}
	return all
}
