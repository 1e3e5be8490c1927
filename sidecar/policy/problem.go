package policy

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a policy.
type Problem struct {
	Line    int    // 1 is the first; 0 is the whole file
	Field   string // as in checks[1].timeout; empty is the document
	Message string
}

// Error is everything that is wrong with a policy, by line.
type Error struct {
	File     string
	Problems []Problem // never empty
}

// Lines returns one line a problem: `FILE:LINE: field: message`.
func (e *Error) Lines() []string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		s := e.File + ": "
		if p.Line > 0 {
			s = fmt.Sprintf("%s:%d: ", e.File, p.Line)
		}
		if p.Field != "" {
			s += p.Field + ": "
		}
		lines = append(lines, s+p.Message)
	}
	return lines
}

// Error returns the lines, joined by newlines.
func (e *Error) Error() string { return strings.Join(e.Lines(), "\n") }
