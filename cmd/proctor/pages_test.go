package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commandLines are proctor's own command lines in a block of shell: without a
// prompt, and without what follows a redirection or the next command.
func commandLines(block string) []string {
	beyond := regexp.MustCompile(` (?:2?>|\||&&|;|#) ?.*$`)
	var all []string
	for line := range strings.SplitSeq(strings.ReplaceAll(block, "\\\n", " "), "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		if strings.HasPrefix(line, "proctor ") {
			all = append(all, beyond.ReplaceAllString(line, ""))
		}
	}
	return all
}

// TestPagesCommandsParse holds every command line that the documentation shows
// against proctor's own parser.
func TestPagesCommandsParse(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, page := range append(pages, "../../README.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(b), "```") {
			if i%2 == 0 {
				continue
			}
			for _, line := range commandLines(block) {
				total++
				if strings.Contains(line, " [") || strings.HasSuffix(line, " SESSION") || strings.HasSuffix(line, " SEAL") {
					continue // a usage line, not a command
				}
				if err := parses(shellWords(t, line)); err != nil {
					t.Errorf("%s: %s: %v", filepath.Base(page), line, err)
				}
			}
		}
		checkInline(t, page, string(b))
	}
	if total < 10 {
		t.Errorf("the documentation shows %d commands only", total)
	}
}

// checkInline wants verbs and flags of commands in running text to exist; their
// arguments may be left out there.
func checkInline(t *testing.T, page, text string) {
	t.Helper()
	for _, m := range regexp.MustCompile("`proctor ([a-z][^`\n]*)`").FindAllStringSubmatch(text, -1) {
		if regexp.MustCompile(` v[0-9]+$`).MatchString(m[1]) {
			continue // the first bytes of a format
		}
		var words []string
		for _, w := range strings.Fields(m[1]) {
			if w == "--" || !regexp.MustCompile(`^(--)?[a-z][a-z-]*$`).MatchString(w) {
				break
			}
			words = append(words, w)
		}
		if err := parses(append(words, "--help")); err != nil && !strings.Contains(err.Error(), "needs an argument") {
			t.Errorf("%s: `proctor %s`: %v", filepath.Base(page), m[1], err)
		}
	}
}
