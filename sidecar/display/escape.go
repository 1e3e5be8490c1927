package display

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape returns s as one line of printable text. What does not print, what
// prints as nothing, what changes the direction or the look of its neighbours,
// and every byte that is not UTF-8 becomes \n, \r, \t, \xNN (a byte), \uNNNN or
// \UNNNNNNNN (a character). What a CI runner would take for a command (`::`
// at the start, `##[` anywhere) is broken by an escape too.
//
// Two different strings never look the same: if anything was escaped, or if s
// holds something that reads like an escape, every backslash is doubled;
// otherwise s is returned as it is.
func Escape(s string) string {
	if !needsEscape(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/4)
	start := len(s) - len(strings.TrimLeft(s, " "))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case i == start && commandAtStart(s[i:]), commandAnywhere(s[i:]):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case visible(r):
			b.WriteRune(r)
		default:
			writeEscape(&b, r)
		}
		i += n
	}
	return b.String()
}

// Printable reports whether a person who reads s sees exactly s: valid UTF-8,
// one line, and no character that Escape would change. Backslashes and CI
// commands do not matter here.
func Printable(s string) bool {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return false
			}
		}
		if !visible(r) {
			return false
		}
	}
	return true
}

func needsEscape(s string) bool {
	if !Printable(s) || commandAtStart(strings.TrimLeft(s, " ")) {
		return true
	}
	for i := range len(s) {
		switch s[i] {
		case '\\':
			if i+1 < len(s) && strings.IndexByte(`nrtxuU\`, s[i+1]) >= 0 {
				return true
			}
		case '#':
			if commandAnywhere(s[i:]) {
				return true
			}
		}
	}
	return false
}

func writeEscape(b *strings.Builder, r rune) {
	switch {
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case r < utf8.RuneSelf:
		fmt.Fprintf(b, `\x%02x`, r)
	case r <= 0xffff:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// visible reports whether r leaves ink of its own, or is the plain space.
// unicode.IsPrint keeps characters that most terminals draw as nothing: the
// default-ignorable ones that are letters or marks (Hangul fillers, variation
// selectors, the grapheme joiner) and the empty braille cell.
func visible(r rune) bool {
	if r >= ' ' && r < 0x7f {
		return true
	}
	const emptyBraille = 0x2800
	return unicode.IsPrint(r) && r != emptyBraille &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// commandAtStart reports whether s, at the start of a line, is a workflow
// command of GitHub's runner, which skips spaces before it.
func commandAtStart(s string) bool { return strings.HasPrefix(s, "::") }

// commandAnywhere reports whether s starts with `##[` or `##word[`: runners of
// GitHub and Azure find them anywhere in a line, TeamCity at its start.
func commandAnywhere(s string) bool {
	rest, ok := strings.CutPrefix(s, "##")
	if !ok {
		return false
	}
	rest = strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	return strings.HasPrefix(rest, "[")
}
