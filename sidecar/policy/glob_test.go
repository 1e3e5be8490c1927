package policy

import (
	"strings"
	"testing"
)

func TestGlobMatch(t *testing.T) {
	for _, c := range []struct {
		glob    string
		matches []string
		not     []string
	}{
		{"a", []string{"a", "a/b", "a/b/c"}, []string{"b/a", "aa", "A", ""}},
		{"a/b", []string{"a/b", "a/b/c"}, []string{"a", "b", "a/c", "x/a/b", "a/bb"}},
		{"*", []string{"a", ".a", "a/b"}, nil},
		{"*.go", []string{"x.go", ".go", "x.go/y"}, []string{"a/x.go", "x.gob"}},
		{"a*b", []string{"ab", "axb", "abb"}, []string{"a", "a/b", "ba"}},
		{"a*ba", []string{"aba", "abba"}, []string{"aa", "abab"}},
		{"*a*a*", []string{"aa", "xaxax"}, []string{"a", "xax"}},
		{"**", []string{"a", "a/b"}, nil},
		{"**/a", []string{"a", "x/a", "x/y/a", "x/a/z"}, []string{"ba", "x/ba"}},
		{"a/**/b", []string{"a/b", "a/x/b", "a/x/y/b/z"}, []string{"a", "b", "x/a/b"}},
		{"a/**", []string{"a", "a/x", "a/x/y"}, []string{"b", "x/a"}},
		{"**/a/**/b", []string{"a/b", "x/a/y/b"}, []string{"b/a", "a"}},
		{"**/**/a", []string{"a", "x/y/a"}, []string{"b"}},
		{`\*`, []string{"*", "*/x"}, []string{"a"}},
		{`\[id\]`, []string{"[id]"}, []string{"i", `\[id\]`}},
		{`a\\b`, []string{`a\b`}, []string{"ab"}},
		{"é", []string{"é"}, []string{"e", "e\u0301", "\xe9"}},
		{"*", []string{"\xff\n"}, nil},
	} {
		g, err := ParseGlob(c.glob)
		if err != nil {
			t.Fatal(err)
		}
		if g.String() != c.glob {
			t.Errorf("String() = %q, want %q", g, c.glob)
		}
		for _, p := range c.matches {
			if !g.Match(p) {
				t.Errorf("%q does not match %q", c.glob, p)
			}
		}
		for _, p := range c.not {
			if g.Match(p) {
				t.Errorf("%q matches %q", c.glob, p)
			}
		}
	}
	if (Glob{}).Match("a") || (Glob{}).Match("") {
		t.Error("the zero Glob matches")
	}
}

// naive is the definition: a pattern covers a path if it matches the path or a
// directory above it, tried in every way.
func naive(parts [][]string, path []string) bool {
	if len(parts) == 0 {
		return true
	}
	if parts[0] == nil {
		return naive(parts[1:], path) || len(path) > 0 && naive(parts, path[1:])
	}
	return len(path) > 0 && naiveComponent(parts[0], path[0]) && naive(parts[1:], path[1:])
}

func naiveComponent(literals []string, c string) bool {
	rest, ok := strings.CutPrefix(c, literals[0])
	if !ok || len(literals) == 1 {
		return ok && rest == ""
	}
	next := append([]string{""}, literals[1:]...)
	for i := range len(rest) + 1 {
		if r, ok := strings.CutPrefix(rest[i:], next[1]); ok {
			if len(next) == 2 && r == "" || len(next) > 2 && naiveComponent(append([]string{""}, next[2:]...), r) {
				return true
			}
		}
	}
	return false
}

func FuzzGlob(f *testing.F) {
	for _, s := range []string{"a", "a/b", "*.go", "**/a", "a/**/b", "*a*a*", `\*`, `a\\b`, "a/**", "**"} {
		f.Add(s, "a/b")
		f.Add(s, "x/a/y/b.go")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		g, err := ParseGlob(pattern)
		if err != nil {
			return
		}
		again, err := ParseGlob(g.String())
		if err != nil {
			t.Fatalf("%q does not read back: %v", g, err)
		}
		if len(pattern) > 20 || len(path) > 20 {
			_ = g.Match(path)
			return
		}
		want := naive(g.parts, strings.Split(path, "/"))
		if got := g.Match(path); got != want || again.Match(path) != want {
			t.Errorf("%q on %q = %v, want %v", pattern, path, got, want)
		}
	})
}

func BenchmarkGlobWorst(b *testing.B) {
	g, err := ParseGlob(strings.Repeat("**/*a*a*a/", 50) + "b")
	if err != nil {
		b.Fatal(err)
	}
	path := strings.Repeat(strings.Repeat("a", 50)+"/", 80) + "c"
	for b.Loop() {
		g.Match(path)
	}
}
