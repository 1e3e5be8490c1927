package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// cliPage is docs/cli.md, made of the command tree and of nothing else.
func cliPage() string {
	a := &app{streams: streams{os.Stdin, nopWriter{}, nopWriter{}}, env: func(string) string { return "" }}
	root := newRootCommand(a)
	var b strings.Builder
	b.WriteString("# The command line\n\n<!-- Made of the command tree: go test ./cmd/proctor -run TestCLIPage -update -->\n\n")
	b.WriteString(root.Long + "\n\n| verb | does | `--json` prints |\n|---|---|---|\n")
	all := verbsOf(root)
	for _, c := range all {
		_, _ = fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short, code(c.Annotations[schemaKey]))
	}
	b.WriteString("\nA refusal and an error print `proctor/error/v1`, `sessions show` without a seal `proctor/unsealed/v1`.\n")
	b.WriteString("\n## Exit status\n\n| status | meaning |\n|---|---|\n")
	for _, e := range exitCodes() {
		_, _ = fmt.Fprintf(&b, "| %d | %s |\n", e.Code, e.Meaning)
	}
	b.WriteString("\n## Environment\n\n| variable | meaning |\n|---|---|\n")
	for _, v := range variables() {
		_, _ = fmt.Fprintf(&b, "| `%s` | %s |\n", v.Name, v.Meaning)
	}
	for _, topic := range topics() {
		if topic.Use == "formatting" {
			b.WriteString("\n## Formatting\n\n" + topic.Long + "\n")
		}
	}
	b.WriteString("\n## Flags of every verb\n\n")
	flagTable(&b, root.PersistentFlags())
	for _, c := range all {
		_, _ = fmt.Fprintf(&b, "\n## %s\n\n```\n%s\n```\n\n", c.CommandPath(), c.UseLine())
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		b.WriteString(text + "\n")
		if c.HasAvailableLocalFlags() || c.InheritedFlags().HasFlags() {
			b.WriteString("\n")
			own := pflag.NewFlagSet("", pflag.ContinueOnError)
			own.AddFlagSet(c.NonInheritedFlags())
			c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
				if root.PersistentFlags().Lookup(f.Name) == nil {
					own.AddFlag(f)
				}
			})
			flagTable(&b, own)
		}
		_, _ = fmt.Fprintf(&b, "\n```\n%s\n```\n", undent(c.Example))
	}
	return strings.ReplaceAll(b.String(), "\n\n\n", "\n\n")
}

// verbsOf are all commands that do something, in order.
func verbsOf(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.Runnable() && !sub.Hidden {
			all = append(all, sub)
		}
		all = append(all, verbsOf(sub)...)
	}
	return all
}

func flagTable(b *strings.Builder, flags *pflag.FlagSet) {
	first := true
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if first {
			b.WriteString("| flag | meaning |\n|---|---|\n")
			first = false
		}
		name, usage := pflag.UnquoteUsage(f)
		text := "--" + f.Name
		if f.Shorthand != "" {
			text = "-" + f.Shorthand + ", " + text
		}
		if name != "" {
			text += " " + name
		}
		_, _ = fmt.Fprintf(b, "| `%s` | %s |\n", text, strings.ReplaceAll(usage, "|", `\|`))
	})
}

func undent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// TestCLIPage fails when docs/cli.md is not what the command tree says.
func TestCLIPage(t *testing.T) {
	const path = "../../docs/cli.md"
	want := cliPage()
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || string(have) != want {
		t.Errorf("docs/cli.md is stale (%v): go test ./cmd/proctor -run TestCLIPage -update", err)
	}
}

// TestHelpHasExamples wants two command lines for every verb that proctor
// itself would take.
func TestHelpHasExamples(t *testing.T) {
	a := &app{streams: streams{os.Stdin, nopWriter{}, nopWriter{}}, env: func(string) string { return "" }}
	for _, c := range verbsOf(newRootCommand(a)) {
		lines := commandLines(undent(c.Example))
		if len(lines) < 2 {
			t.Errorf("%s: %d examples", c.CommandPath(), len(lines))
		}
		for _, line := range lines {
			words := shellWords(t, line)
			if err := parses(words); err != nil {
				t.Errorf("%s: %s: %v", c.CommandPath(), line, err)
			}
			if !strings.HasPrefix(line, c.CommandPath()) && c.Name() != "apply" {
				t.Errorf("%s: an example of another verb: %s", c.CommandPath(), line)
			}
		}
		if c.Annotations[schemaKey] == "" {
			t.Errorf("%s: nothing says what --json prints", c.CommandPath())
		}
	}
}
