package docs_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// walkStep is one command of a page, and the lines that the page shows of what it
// prints.
type walkStep struct {
	command string
	shown   []string
}

// walk reads the commands of a page's console blocks. "…" stands for anything.
func walk(text string) []walkStep {
	var steps []walkStep
	for i, block := range strings.Split(text, "```") {
		body, ok := strings.CutPrefix(block, "console\n")
		if i%2 == 0 || !ok {
			continue
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(body, "\n"), "\n") {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, walkStep{command: command})
			} else if len(steps) > 0 {
				last := &steps[len(steps)-1]
				last.shown = append(last.shown, line)
			}
		}
	}
	return steps
}

// TestWalkThroughs runs the commands of each page that has some, in one shell and
// in a directory and home of their own: what the page shows is printed.
func TestWalkThroughs(t *testing.T) {
	if out, err := exec.Command("make", "-C", root, "all").CombinedOutput(); err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"trust.md", "trust-packages.md"} {
		steps := walk(read(t, page))
		if len(steps) < 5 {
			t.Fatalf("%s: %d commands", page, len(steps))
		}
		printed := runWalk(t, bin, steps)
		for i, s := range steps {
			for _, line := range s.shown {
				pattern := "(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "$"
				if !regexp.MustCompile(pattern).MatchString(printed[i]) {
					t.Errorf("%s: %s prints no %q, but:\n%s", page, s.command, line, printed[i])
				}
			}
		}
	}
}

// runWalk returns what each command printed.
func runWalk(t *testing.T, bin string, steps []walkStep) []string {
	t.Helper()
	dir, err := os.MkdirTemp("", "proctor-walk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var script strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&script, "echo '@@ %d'\n%s\n", i, s.command)
	}
	cmd := exec.Command("sh", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir+"/state", "XDG_CONFIG_HOME="+dir+"/config", "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	printed := make([]string, len(steps))
	at := -1
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for lines.Scan() {
		if n, _ := fmt.Sscanf(lines.Text(), "@@ %d", &at); n == 1 {
			continue
		}
		if at >= 0 {
			printed[at] += lines.Text() + "\n"
		}
	}
	if at != len(steps)-1 {
		t.Fatalf("ended early: %v\n%s", err, out)
	}
	return printed
}
