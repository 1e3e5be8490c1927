package services

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// spelling is a text, a character at a time, each with every way to write it
// that is known here: itself, or escaped for a URL, JSON, a program's string or
// HTML. Encoders differ in what they escape, so each character may be written in
// any of its ways.
type spelling [][]way

// way is one way to write a character.
type way struct {
	text []byte
	fold bool // in upper or lower case; text is in lower case then
}

// spellingsOf are a text itself, in hex, and in base64, also as a part of
// something longer that is encoded as a whole.
func spellingsOf(text string) []spelling {
	all := []spelling{characters(text, false), characters(hex.EncodeToString([]byte(text)), true)}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		all = append(all, characters(e.EncodeToString([]byte(text)), false))
		for before := range 3 {
			if s := withinBase64(e, text, before); s != "" {
				all = append(all, characters(s, false))
			}
		}
	}
	return all
}

// withinBase64 is what is the same of a text, encoded behind so many other bytes
// and before whatever follows. Up to half a byte of the text at either end is not
// in it.
func withinBase64(e *base64.Encoding, text string, before int) string {
	s := e.EncodeToString(append(make([]byte, before), text...))
	from := (before*8 + 5) / 6         // the characters before hold other bytes' bits
	to := (before + len(text)) * 8 / 6 // and the one behind may
	if to-from < 8 {
		return ""
	}
	return s[from:to]
}

func characters(text string, fold bool) spelling {
	var s spelling
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		s = append(s, waysOf(r, text[:n], fold))
		text = text[n:]
	}
	return s
}

func waysOf(r rune, raw string, fold bool) []way {
	each := func(format string) string {
		var b strings.Builder
		for i := range len(raw) {
			fmt.Fprintf(&b, format, raw[i])
		}
		return b.String()
	}
	all := []way{{[]byte(raw), fold}}
	add := func(s string) { all = append(all, way{[]byte(s), true}) }
	add(each("%%%02x"))
	add(each(`\x%02x`))
	add(each(`\%03o`))
	if r == utf8.RuneError && len(raw) == 1 {
		return all // no character, but a byte
	}
	if one, two := utf16.EncodeRune(r); one != utf8.RuneError {
		add(fmt.Sprintf(`\u%04x\u%04x`, one, two))
	} else {
		add(fmt.Sprintf(`\u%04x`, r))
	}
	add(fmt.Sprintf(`\u%08x`, r))
	add(fmt.Sprintf("&#%d;", r))
	add(fmt.Sprintf("&#%03d;", r))
	add(fmt.Sprintf("&#x%x;", r))
	add(fmt.Sprintf("&#x%04x;", r))
	for _, s := range named(r) {
		all = append(all, way{[]byte(s), false})
	}
	return all
}

// named are the escapes of single characters.
func named(r rune) []string {
	switch r {
	case '&':
		return []string{"&amp;"}
	case '<':
		return []string{"&lt;"}
	case '>':
		return []string{"&gt;"}
	case '"':
		return []string{"&quot;", `\"`}
	case '\'':
		return []string{"&apos;", `\'`}
	case '/':
		return []string{`\/`}
	case '\\':
		return []string{`\\`}
	case '\t':
		return []string{`\t`}
	case ' ':
		return []string{"+"}
	}
	return nil
}

// match returns how long the spelling is that b begins with, 0 for none, and
// whether b could be the beginning of one that goes on behind it.
func (s spelling) match(b []byte) (n int, open bool) {
	var here, next [8]int // where the characters so far may have ended
	ends := append(here[:0], 0)
	for _, ways := range s {
		after := next[:0]
		for _, at := range ends {
			for _, w := range ways {
				rest := b[at:]
				whole := len(rest) >= len(w.text)
				if !w.begins(rest[:min(len(rest), len(w.text))]) {
					continue
				}
				if !whole {
					open = true
				} else if end := at + len(w.text); !slices.Contains(after, end) {
					after = append(after, end)
				}
			}
		}
		if len(after) == 0 {
			return 0, open
		}
		ends = append(here[:0], after...)
	}
	for _, end := range ends {
		n = max(n, end)
	}
	return n, open
}

// begins reports whether the way to write it begins with b.
func (w way) begins(b []byte) bool {
	if !w.fold {
		return bytes.HasPrefix(w.text, b)
	}
	for i, c := range b {
		if w.text[i] != c && upper(w.text[i]) != c {
			return false
		}
	}
	return true
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}
