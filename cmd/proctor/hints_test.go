package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// parses says why proctor would not take a command line, without running it.
func parses(args []string) error {
	a := &app{streams: streams{os.Stdin, nopWriter{}, nopWriter{}}, env: func(string) string { return "" }}
	root := newRootCommand(a)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	if _, err := checkVerb(root, args); err != nil {
		return err
	}
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	return parseFlags(c, rest)
}

func parseFlags(c *cobra.Command, rest []string) error {
	c.InitDefaultHelpFlag()
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	if asked, err := c.Flags().GetBool("help"); err == nil && asked {
		return nil
	}
	return c.ValidateArgs(c.Flags().Args())
}

type nopWriter struct{}

func (nopWriter) Write(p []byte) (int, error) { return len(p), nil }

// shellWords lets sh split a command line, and fails if that runs anything.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	cmd := exec.Command("sh", "-c", "proctor() { printf '%s\\0' \"$@\"; }\n"+line)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sh: %v: %s", err, line)
	}
	made, err := os.ReadDir(cmd.Dir)
	if err != nil || len(made) > 0 {
		t.Fatalf("pasting made %v, %v: %s", made, err, line)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// hintsIn finds the commands that a text offers. Each is the last thing on its
// line.
func hintsIn(text string) []string {
	offer := regexp.MustCompile(`(?m)^(?:proctor: hint: |next +|approve +|deny +| +remedy:? +| +review +)(.*)$`)
	aside := regexp.MustCompile(`  \(.*\)$`)
	var all []string
	for _, m := range offer.FindAllStringSubmatch(text, -1) {
		all = append(all, aside.ReplaceAllString(m[1], ""))
	}
	return all
}

// checkHints parses every hint with proctor's own parser, as sh hands it over.
func checkHints(t *testing.T, text string) {
	t.Helper()
	seen := map[string]bool{}
	for _, hint := range hintsIn(text) {
		if seen[hint] {
			continue
		}
		seen[hint] = true
		if rest, ok := strings.CutPrefix(hint, "did you mean: "); ok {
			// Only the verb or the flag is meant: --help takes the place of the rest.
			hint = rest + " --help"
			if name, ok := strings.CutSuffix(rest, " --home"); ok {
				hint = name + " --home DIR"
			}
		}
		if !strings.HasPrefix(hint, "proctor ") {
			if strings.Contains(hint, "proctor ") {
				t.Errorf("a command is not the whole hint: %s", hint)
			}
			continue
		}
		if err := parses(shellWords(t, hint)); err != nil {
			t.Errorf("hint %q: %v", hint, err)
		}
	}
	if all := flag.Lookup("test.run").Value.String() == ""; all && len(seen) < 20 {
		t.Errorf("only %d hints were printed: the scripts do not cover them", len(seen))
	}
}

// hostilePaths are names that a shell, a terminal or a CI runner would read as
// something else.
func hostilePaths() []string {
	return []string{
		"plain", "two words", "it's", `say "x"`, "$(touch x)", "`touch x`", "a;touch x", "-rf", "--", "~", "=ls",
		"new\nline", "\x1b[2J", "tab\there", "##[command]", "\u202eback", "*", "back\\slash", "a=b",
	}
}

// TestHintsWithPathsPaste pastes each hint that carries a path into sh: what
// proctor would get is the very path.
func TestHintsWithPathsPaste(t *testing.T) {
	for _, name := range hostilePaths() {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		seal := filepath.Join(dir, "seal.json")
		if err := os.WriteFile(seal, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		for want, args := range map[string][]string{
			dir:  {"--home", dir, "sessions", "list"},
			seal: {"verify", "--", seal},
		} {
			var out, errs strings.Builder
			run(t.Context(), args, streams{os.Stdin, &out, &errs}, func(string) string { return "" })
			hints := hintsIn(errs.String())
			if len(hints) != 1 || strings.Contains(errs.String(), "\x1b") {
				t.Errorf("%q: hints %q of %q", args, hints, errs.String())
				continue
			}
			words := shellWords(t, hints[0])
			if !slices.Contains(words, want) {
				t.Errorf("%s: became %q, want %q", hints[0], words, want)
			}
			if err := parses(words); err != nil {
				t.Errorf("%s: %v", hints[0], err)
			}
		}
	}
}
