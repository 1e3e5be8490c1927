package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// test is one test of one package.
type test struct{ pkg, name string }

type counter struct {
	progress io.Writer
	output   map[test][]string // of tests that have not passed
	passed   map[test]bool
	failed   []test
	skipped  []test
	closing  map[string]string // package -> go test's last line about it
	packages []string          // in the order in which they ended
	broken   []string          // packages that failed
}

func newCounter(progress io.Writer) *counter {
	return &counter{
		progress: progress,
		output:   map[test][]string{},
		passed:   map[test]bool{},
		closing:  map[string]string{},
	}
}

func (c *counter) add(e event) {
	id := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(c.progress, e.Output)
	case "output":
		if e.Test == "" && isClosing(e.Output) {
			c.closing[e.Package] = strings.TrimSuffix(e.Output, "\n")
			return
		}
		if e.Test == "" && (e.Output == "PASS\n" || e.Output == "FAIL\n") {
			return
		}
		c.output[id] = append(c.output[id], e.Output)
	case "pass":
		c.end(e, id)
		if e.Test != "" {
			c.passed[id] = true
			delete(c.output, id)
		}
	case "fail":
		c.end(e, id)
		if e.Test == "" {
			c.broken = append(c.broken, e.Package)
		} else {
			c.failed = append(c.failed, id)
		}
		c.show(id)
	case "skip":
		c.end(e, id)
		if e.Test != "" { // a package without tests is skipped too
			c.skipped = append(c.skipped, id)
		}
	}
}

// isClosing reports whether go test says with the line how a package ended.
func isClosing(line string) bool {
	for _, p := range [...]string{"ok  \t", "FAIL\t", "---\t", "?   \t", "\t"} {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

func (c *counter) end(e event, id test) {
	if id.name == "" {
		c.packages = append(c.packages, e.Package)
		fmt.Fprintf(c.progress, "%s %s (%.1f s)\n", e.Action, e.Package, e.Elapsed)
	}
}

// show prints what a failed test, or a failed package, has said.
func (c *counter) show(id test) {
	if id.name != "" {
		fmt.Fprintf(c.progress, "==> %s %s failed\n", id.pkg, id.name)
	}
	for _, line := range c.output[id] {
		// The name stands above; these two say nothing else.
		if !strings.HasPrefix(line, "=== RUN") && !strings.HasPrefix(line, "=== PAUSE") && !strings.HasPrefix(line, "=== CONT") {
			fmt.Fprint(c.progress, line)
		}
	}
}

// report prints the account, go test's closing lines last, and says whether the
// run was good.
func (c *counter) report(w io.Writer, expected []string, strict bool) bool {
	good := len(c.failed) == 0 && len(c.broken) == 0
	for _, id := range c.skipped {
		fmt.Fprintf(w, "skipped: %s %s: %s\n", id.pkg, id.name, c.reason(id))
		good = good && !strict
	}
	for _, want := range expected {
		if !c.has(want) {
			fmt.Fprintf(w, "expected, but did not pass: %s\n", want)
			good = good && !strict
		}
	}
	for _, id := range c.failed {
		fmt.Fprintf(w, "failed: %s %s\n", id.pkg, id.name)
	}
	if len(c.passed) == 0 {
		fmt.Fprintln(w, "no test passed")
		good = false
	}
	fmt.Fprintf(w, "tests: %d passed, %d failed, %d skipped, in %d packages\n",
		len(c.passed), len(c.failed), len(c.skipped), len(c.packages))
	for _, pkg := range c.packages {
		if line := c.closing[pkg]; line != "" {
			fmt.Fprintln(w, line)
		} else if slices.Contains(c.broken, pkg) {
			fmt.Fprintf(w, "FAIL\t%s\n", pkg)
		}
	}
	return good
}

// reason is why a test was skipped, as far as it said so.
func (c *counter) reason(id test) string {
	var said []string
	for _, line := range c.output[id] {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

// has reports whether a test of the list passed: its package ends with the
// list's path.
func (c *counter) has(want string) bool {
	pkg, name, _ := strings.Cut(want, " ")
	for id := range c.passed {
		if id.name == name && strings.HasSuffix("/"+id.pkg, "/"+pkg) {
			return true
		}
	}
	return false
}
