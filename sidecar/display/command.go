package display

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// PathFlag is the flag whose value is the standard base64 of a path's bytes.
// Every verb that takes an absolute path as an argument takes it instead.
const PathFlag = "--path-base64"

// Quote returns s as one word of POSIX sh. The word is bare where that is
// safe, else in single quotes. s must hold no NUL byte, which no argument can.
// `##` is written as two neighbouring quoted parts, so that a CI runner finds no
// command in the line. Quote hides nothing: a word that is not Printable is for
// Command to write.
func Quote(s string) string {
	if bare(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('\'')
	for i := range len(s) {
		switch {
		case s[i] == '\'':
			b.WriteString(`'\''`)
			continue
		case s[i] == '#' && i > 0 && s[i-1] == '#':
			b.WriteString(`''`)
		}
		b.WriteByte(s[i])
	}
	b.WriteByte('\'')
	return b.String()
}

// bare reports whether s means itself, anywhere in a command, to sh, bash, dash
// and zsh. A leading `=` is a command's path to zsh, a leading `~` a home.
func bare(s string) bool {
	if s == "" || s[0] == '=' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("_@%+=:,./-", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// Command returns one line that sh splits into exactly the given words, for a
// person to paste. The first word is the program.
//
// A word that is not Printable cannot be shown and pasted at once. If it is an
// absolute path among the arguments, it becomes PathFlag and the base64 of its
// bytes; behind a flag or behind `--` it becomes a printf that yields it. What
// no line of sh can say (a NUL byte, a newline at the very end behind a flag)
// gives "": the caller then has no command to offer and must not print one.
func Command(words ...string) string {
	out := make([]string, 0, len(words))
	literal := false
	for i, w := range words {
		flagged := literal || i == 0 || takesValue(words[i-1])
		switch {
		case strings.IndexByte(w, 0) >= 0:
			return ""
		case Printable(w):
			out = append(out, Quote(w))
		case strings.HasPrefix(w, "/") && !flagged:
			out = append(out, PathFlag, base64.StdEncoding.EncodeToString([]byte(w)))
		case strings.HasSuffix(w, "\n"):
			return "" // a command substitution drops it
		default:
			out = append(out, printf(w))
		}
		literal = literal || w == "--"
	}
	return strings.Join(out, " ")
}

// takesValue reports whether the word after w may be w's value.
func takesValue(w string) bool {
	return strings.HasPrefix(w, "-") && w != "--" && !strings.Contains(w, "=")
}

// printf returns a word of sh that expands to s. The escapes are those of %b,
// because some shells read a format's octal escapes before its percent signs.
func printf(s string) string {
	var b strings.Builder
	b.WriteString(`"$(printf %b '`)
	for i := range len(s) {
		if c := s[i]; c == '/' || bare(string(rune(c))) && c < 0x80 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\0%03o`, c)
		}
	}
	b.WriteString(`')"`)
	return b.String()
}
