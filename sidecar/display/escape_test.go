package display

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// hostile are names and lines that an agent could choose.
var hostile = []string{
	"", " ", "plain/path.txt", "with space", `back\slash`, `C:\new`, `a\`, `\`, `\\`, "it's", `"quoted"`,
	"$(touch x)", "`touch x`", "a;touch x", "a&&touch x", "a|touch x", "a>x", "${HOME}", "~", "~root", "*", "?", "[a]", "{a,b}",
	"#comment", "!!", "=ls", "-rf", "--", "--path-base64", "a\nb", "\n", "a\n", "a\r", "a\tb", "\x1b[31mred", "\x1b]0;title\a", "\x7f",
	"\u0085next", "\u009b31m", "\u202erev", "\u2066iso", "\u200bzero", "\ufeffbom", "\u00a0nbsp", "\u2028sep", "\u3164filler", "\u2800",
	"a\ufe0f", "\u034f", "\U000e0041tag", "bad\xff\xfeutf8", "\xc3", "\xed\xa0\x80", "\ufffd", "é", "日本", "👍", "\x00",
	"::error::x", "  ::error::x", "a ::error::", "##[group]x", "a##[error]x", "###[x", "##vso[task]x", "##teamcity[x]", "## heading", "#\n#[x",
	"%s%d%n", "%b", `\x41`, `\u202e`, `\n`, `x\ny`, "/abs/sp ace", "/abs/new\nline", "/abs/\xff", "/abs/end\n", "/abs/$(touch x)\n'\"",
	"proctor: error: forged\nproctor: hint: rm -rf /", strings.Repeat("long ", 2000),
}

func TestEscapeTable(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain/path.txt", "plain/path.txt"},
		{"日本 é 👍", "日本 é 👍"},
		{`back\slash`, `back\slash`},
		{`C:\new`, `C:\\new`},
		{`a\b` + "\n", `a\\b\n`},
		{"a\nb\r\t", `a\nb\r\t`},
		{"\x1b[31m", `\x1b[31m`},
		{"\x7f\x00", `\x7f\x00`},
		{"\u009b", `\u009b`},
		{"\u202e", `\u202e`},
		{"\U000e0041", `\U000e0041`},
		{"\xff\xc3", `\xff\xc3`},
		{"\ufffd", "\ufffd"},
		{"::error::x", `\x3a:error::x`},
		{"  ::error::x", `  \x3a:error::x`},
		{"a ::error::x", "a ::error::x"},
		{"a##[error]x", `a\x23#[error]x`},
		{"###[x", `#\x23#[x`},
		{"##vso[task]", `\x23#vso[task]`},
		{"## heading", "## heading"},
	} {
		if got := Escape(c.in); got != c.want {
			t.Errorf("Escape(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestEscapeIsOneVisibleReversibleLine(t *testing.T) {
	seen := map[string]string{}
	for _, s := range hostile {
		checkEscape(t, s)
		if other, ok := seen[Escape(s)]; ok {
			t.Errorf("%q and %q look the same", s, other)
		}
		seen[Escape(s)] = s
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkEscape(t, s) })
}

func checkEscape(t *testing.T, s string) {
	t.Helper()
	e := Escape(s)
	if !Printable(e) {
		t.Errorf("Escape(%q) = %q is not printable", s, e)
	}
	for _, r := range e {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e {
			t.Errorf("Escape(%q) holds %U", s, r)
		}
	}
	if strings.HasPrefix(strings.TrimSpace(e), "::") || strings.Contains(e, "##[") || strings.Contains(e, "##vso[") {
		t.Errorf("Escape(%q) = %q is a command to a CI runner", s, e)
	}
	if back := unescape(e); back != s {
		t.Errorf("Escape(%q) = %q reads back as %q", s, e, back)
	}
}

// unescape is Escape's inverse, written from its description alone.
func unescape(e string) string {
	var b strings.Builder
	for i := 0; i < len(e); {
		if e[i] != '\\' || i+1 == len(e) {
			b.WriteByte(e[i])
			i++
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[e[i+1]]
		switch c := e[i+1]; {
		case c == '\\':
			b.WriteByte('\\')
		case c == 'n':
			b.WriteByte('\n')
		case c == 'r':
			b.WriteByte('\r')
		case c == 't':
			b.WriteByte('\t')
		case digits > 0 && i+2+digits <= len(e):
			v, err := strconv.ParseUint(e[i+2:i+2+digits], 16, 32)
			if err != nil {
				return "bad escape in " + e
			}
			if c == 'x' {
				b.WriteByte(byte(v))
			} else {
				b.WriteRune(rune(v))
			}
		default:
			b.WriteString(e[i : i+2])
		}
		i += 2 + digits
	}
	return b.String()
}

func TestPrintable(t *testing.T) {
	for _, s := range []string{"", "a b", `a\b`, "::x", "##[x", "é", "\ufffd"} {
		if !Printable(s) {
			t.Errorf("Printable(%q) is false", s)
		}
	}
	for _, s := range []string{"a\n", "\x1b", "\xff", "\u202e", "\u00a0", "\u3164", "\u200d"} {
		if Printable(s) {
			t.Errorf("Printable(%q) is true", s)
		}
		if !utf8.ValidString(Escape(s)) {
			t.Errorf("Escape(%q) is not UTF-8", s)
		}
	}
}
