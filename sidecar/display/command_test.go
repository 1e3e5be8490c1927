package display

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// shells are the ones that a line is pasted into; the first must be there.
var shells = []string{"sh", "bash", "dash", "zsh"}

// paste runs the lines in the shell, with a function `show` that prints how many
// arguments it has and each of them, all ended by a NUL byte. It returns the
// arguments of each line, and fails if the lines made any file.
func paste(t *testing.T, shell string, lines ...string) [][]string {
	t.Helper()
	const show = "show() { printf '%s\\0' $# \"$@\"; }\n"
	dir := t.TempDir()
	cmd := exec.Command(shell)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
	cmd.Stdin = strings.NewReader(show + strings.Join(lines, "\n") + "\n")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Fatalf("%s: %q: %v: %s", shell, lines, err, errs.String())
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Fatalf("%s: %q left %v (%v)", shell, lines, left, err)
	}
	words := strings.Split(strings.TrimSuffix(out.String(), "\x00"), "\x00")
	var all [][]string
	for len(words) > 0 {
		n, err := strconv.Atoi(words[0])
		if err != nil || n >= len(words) {
			t.Fatalf("%s: %q: output %q", shell, lines, words)
		}
		all, words = append(all, words[1:1+n]), words[1+n:]
	}
	if len(all) != len(lines) {
		t.Fatalf("%s: %d lines ran %d programs", shell, len(lines), len(all))
	}
	return all
}

func installed(t *testing.T) []string {
	t.Helper()
	var found []string
	for i, s := range shells {
		if _, err := exec.LookPath(s); err == nil {
			found = append(found, s)
		} else if i == 0 {
			t.Fatal(err)
		}
	}
	return found
}

func TestPasteQuoted(t *testing.T) {
	var words []string
	for _, s := range hostile {
		if !strings.Contains(s, "\x00") {
			words = append(words, s)
		}
	}
	line := "show"
	for _, w := range words {
		q := Quote(w)
		if strings.Contains(q, "##[") {
			t.Errorf("Quote(%q) = %s is a command to a CI runner", w, q)
		}
		line += " " + q
	}
	for _, shell := range installed(t) {
		if got := paste(t, shell, line)[0]; !slices.Equal(got, words) {
			t.Errorf("%s: got %q, want %q", shell, got, words)
		}
	}
}

func TestPasteCommand(t *testing.T) {
	var commands [][]string
	for _, s := range hostile {
		if !strings.Contains(s, "\x00") {
			commands = append(commands,
				[]string{"show", "trust", "approve", s, "--session", "7f3k2q"},
				[]string{"show", "sessions", "--product", s},
				[]string{"show", "run", "--", "prog", s})
		}
	}
	for _, shell := range installed(t) {
		checkPaste(t, shell, commands...)
	}
}

// checkPaste demands that pasted Commands yield their words, where a path may
// have become PathFlag and its base64.
func checkPaste(t *testing.T, shell string, commands ...[]string) {
	t.Helper()
	var lines []string
	var want [][]string
	for _, words := range commands {
		line := Command(words...)
		if line == "" {
			if !slices.ContainsFunc(words, unsayable) {
				t.Errorf("no command for %q", words)
			}
			continue
		}
		if !Printable(line) || strings.Contains(line, "##[") {
			t.Errorf("Command(%q) = %q cannot be printed", words, line)
		}
		lines, want = append(lines, line), append(want, words[1:])
	}
	if len(lines) == 0 {
		return
	}
	for i, got := range paste(t, shell, lines...) {
		if !slices.Contains(want[i], PathFlag) {
			got = decodePath(t, got)
		}
		if !slices.Equal(got, want[i]) {
			t.Errorf("%s: %s: got %q, want %q", shell, lines[i], got, want[i])
		}
	}
}

func unsayable(w string) bool { return strings.HasSuffix(w, "\n") || strings.Contains(w, "\x00") }

func decodePath(t *testing.T, words []string) []string {
	t.Helper()
	i := slices.Index(words, PathFlag)
	if i < 0 {
		return words
	}
	path, err := base64.StdEncoding.DecodeString(words[i+1])
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(words[:i], []string{string(path)}, words[i+2:])
}

func TestCommandForms(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"proctor", "trust", "show", "/home/me/site/.envrc"}, "proctor trust show /home/me/site/.envrc"},
		{[]string{"proctor", "trust", "show", "/home/me/my site"}, "proctor trust show '/home/me/my site'"},
		{[]string{"proctor", "trust", "show", "/a\nb"}, "proctor trust show --path-base64 L2EKYg=="},
		{[]string{"proctor", "apply", "--product", "/a\nb"}, `proctor apply --product "$(printf %b '/a\0012b')"`},
		{[]string{"proctor", "x", "--y", "a\n"}, ""},
		{[]string{"proctor", "x", "a\x00"}, ""},
		{[]string{"proctor", "##[x"}, "proctor '#''#[x'"},
	} {
		if got := Command(c.words...); got != c.want {
			t.Errorf("Command(%q) = %s, want %s", c.words, got, c.want)
		}
	}
}

func FuzzCommand(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkPaste(t, "sh", []string{"show", s, "--flag", s, "--", s})
	})
}
