package policy

import (
	"errors"
	"fmt"
	"strings"
)

// Glob is a pattern over the product's paths. The zero Glob matches nothing.
type Glob struct {
	text  string
	parts [][]string // per component, its literals between the stars; nil is **
}

// ParseGlob reads a pattern: components separated by slashes, from the
// product's root. `*` stands for any bytes within a component, a component
// `**` for any number of components. A backslash takes the special meaning from
// `*`, `?`, `[`, `]`, `{`, `}`, `!` and itself; without it, those but the star
// are refused, because other tools give them meanings that this one does not.
func ParseGlob(s string) (Glob, error) {
	switch {
	case s == "" || strings.HasPrefix(s, "/"):
		return Glob{}, errors.New("is not a pattern relative to the product")
	case strings.HasSuffix(s, "/"):
		return Glob{}, errors.New("ends with a slash; leave it out, a directory's pattern covers what is in it")
	case len(s) > maxPath:
		return Glob{}, fmt.Errorf("is longer than %d bytes", maxPath)
	}
	g := Glob{text: s}
	for c := range strings.SplitSeq(s, "/") {
		switch {
		case c == "" || c == "." || c == "..":
			return Glob{}, errors.New(`holds a component that is empty, "." or ".."`)
		case c == "**":
			if n := len(g.parts); n == 0 || g.parts[n-1] != nil {
				g.parts = append(g.parts, nil)
			}
			continue
		case strings.Contains(c, "**"):
			return Glob{}, errors.New("holds ** beside other characters; it stands alone between slashes")
		}
		literals, err := parseComponent(c)
		if err != nil {
			return Glob{}, err
		}
		g.parts = append(g.parts, literals)
	}
	return g, nil
}

func parseComponent(c string) ([]string, error) {
	const special = `*?[]{}!\`
	literals := []string{""}
	for i := 0; i < len(c); i++ {
		last := len(literals) - 1
		switch {
		case c[i] == '*':
			literals = append(literals, "")
		case c[i] == '\\':
			i++
			if i == len(c) || strings.IndexByte(special, c[i]) < 0 {
				return nil, fmt.Errorf(`holds a backslash before none of %s`, special)
			}
			literals[last] += string(c[i])
		case strings.IndexByte(special, c[i]) >= 0:
			return nil, fmt.Errorf(`holds %c, which means nothing here; write \%c for the character`, c[i], c[i])
		default:
			literals[last] += c[i : i+1]
		}
	}
	return literals, nil
}

// String returns the pattern as it was written.
func (g Glob) String() string { return g.text }

// Match reports whether the pattern covers the path: it matches the path or one
// of the directories above it. The path is raw bytes, relative to the product,
// clean, separated by slashes. The time is at most proportional to the product
// of both lengths.
func (g Glob) Match(path string) bool {
	if len(g.parts) == 0 {
		return false
	}
	// reach[i] is whether the components so far match the first i parts.
	reach := make([]bool, len(g.parts)+1)
	reach[0] = true
	g.skip(reach)
	for c := range strings.SplitSeq(path, "/") {
		for i := len(g.parts); i > 0; i-- {
			if part := g.parts[i-1]; part == nil {
				reach[i] = reach[i] || reach[i-1]
			} else {
				reach[i] = reach[i-1] && matchComponent(part, c)
			}
		}
		reach[0] = false
		g.skip(reach)
		if reach[len(g.parts)] {
			return true
		}
	}
	return false
}

// skip lets each ** stand for no component.
func (g Glob) skip(reach []bool) {
	for i, part := range g.parts {
		if part == nil && reach[i] {
			reach[i+1] = true
		}
	}
}

// matchComponent reports whether c is the literals with any bytes between them.
func matchComponent(literals []string, c string) bool {
	c, ok := strings.CutPrefix(c, literals[0])
	if !ok || len(literals) == 1 {
		return ok && c == ""
	}
	last := len(literals) - 1
	for _, l := range literals[1:last] {
		i := strings.Index(c, l)
		if i < 0 {
			return false
		}
		c = c[i+len(l):]
	}
	return strings.HasSuffix(c, literals[last])
}
