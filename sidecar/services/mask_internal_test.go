package services

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
	"unicode/utf8"
)

// encoders are what a server may write what it was sent with.
func encoders() map[string]func(string) string {
	each := func(format string) func(string) string {
		return func(s string) string {
			var out strings.Builder
			for _, c := range []byte(s) {
				fmt.Fprintf(&out, format, c)
			}
			return out.String()
		}
	}
	runes := func(format string) func(string) string {
		return func(s string) string {
			var out strings.Builder
			for _, c := range s {
				fmt.Fprintf(&out, format, c)
			}
			return out.String()
		}
	}
	units := func(format string) func(string) string {
		return func(s string) string {
			var out strings.Builder
			for _, c := range utf16.Encode([]rune(s)) {
				fmt.Fprintf(&out, format, c)
			}
			return out.String()
		}
	}
	inJSON := func(s string) string {
		b, _ := json.Marshal(s)
		return string(b[1 : len(b)-1])
	}
	lower := func(s string) string { // of the escapes only
		for i := 0; i+2 < len(s); i++ {
			if s[i] == '%' {
				s = s[:i] + strings.ToLower(s[i:i+3]) + s[i+3:]
			}
		}
		return s
	}
	return map[string]func(string) string{
		"raw": func(s string) string { return s }, "query": url.QueryEscape, "path": url.PathEscape,
		"query, lower case": func(s string) string { return lower(url.QueryEscape(s)) },
		"every byte as %XX": each("%%%02X"), "every byte as %xx": each("%%%02x"),
		"\\u": units(`\u%04x`), "\\U": units(`\u%04X`), "\\x": each(`\x%02x`), "octal": each(`\%03o`),
		"JSON": inJSON, "JSON with \\/": func(s string) string { return strings.ReplaceAll(inJSON(s), "/", `\/`) },
		"HTML": html.EscapeString, "decimal": runes("&#%d;"), "hexadecimal": runes("&#x%x;"), "HEXADECIMAL": runes("&#x%X;"),
		"half": func(s string) string { return s[:len(s)/2] + each("%%%02x")(s[len(s)/2:]) },
		"Go":   func(s string) string { q := strconv.QuoteToASCII(s); return q[1 : len(q)-1] },
		"hex":  func(s string) string { return hex.EncodeToString([]byte(s)) }, "HEX": func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
		"base64": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }, "base64 raw": func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) },
		"base64 for URLs": func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
		"base64 in a URL": func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s))) },
		"base64 in JSON": func(s string) string {
			return strings.NewReplacer("/", `\/`, "+", `\u002b`).Replace(base64.StdEncoding.EncodeToString([]byte(s)))
		},
	}
}

// TestMaskSpellings: every spelling, in one piece and in all ways to cut it in
// two, is struck out, what is around it is not.
func TestMaskSpellings(t *testing.T) {
	for _, secret := range []string{"sk-canary+4711/do=not", "\"quoted\\ & <secret>'", "caf\u00e9-\U0001f511-schl\u00fcssel", "abcabcabd-0123", "\xff\xfe-bytes-\x80"} {
		m := newMask(secret)
		for name, encode := range encoders() {
			spelt := encode(secret)
			text := "before " + spelt + " behind"
			check := func(how string, r io.Reader) {
				got, err := io.ReadAll(m.reader(r))
				rest := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(string(got), "before "), " behind"), "*")
				// The padding of base64 says nothing.
				if err != nil || len(got) != len(text) || rest != "" && rest != "=" && rest != "==" && !strings.HasPrefix(rest, "%3D") {
					t.Errorf("%q as %s, %s: %q, %v", secret, name, how, got, err)
				}
			}
			if !utf8.ValidString(secret) && strings.Contains("\\u \\U JSON JSON with \\/ decimal hexadecimal HEXADECIMAL", name) {
				continue // these have no way to write a byte that is no character
			}
			check("whole", strings.NewReader(text))
			check("a byte at a time", iotest.OneByteReader(strings.NewReader(text)))
			for cut := range len(text) {
				check(fmt.Sprint("cut at ", cut), io.MultiReader(strings.NewReader(text[:cut]), strings.NewReader(text[cut:])))
			}
		}
	}
}

// TestMaskWithinBase64: of something longer that is encoded as a whole, at most
// half a byte of the secret is left at either end.
func TestMaskWithinBase64(t *testing.T) {
	const secret = "sk-canary-4711"
	m := newMask(secret)
	for before := range 7 {
		for behind := range 7 {
			plain := strings.Repeat("<", before) + secret + strings.Repeat(">", behind)
			for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
				got, err := io.ReadAll(m.reader(iotest.OneByteReader(strings.NewReader(e.EncodeToString([]byte(plain))))))
				if n := bytes.Count(got, []byte("*")); err != nil || n < len(secret)*8/6-1 {
					t.Errorf("%q: %q, %v", plain, got, err)
				}
			}
		}
	}
}

// TestMaskPassesWhatIsNone: text that only looks like a beginning passes whole,
// and an event does not wait for the next one.
func TestMaskPassesWhatIsNone(t *testing.T) {
	m := newMask("abcabd-secret")
	const event = "data: abcab %61 \\u0061 &#97; abcabd-secre YWJjYWJk 6162636162642d\n\n"
	from, to := io.Pipe()
	defer func() { _ = to.Close() }()
	go func() { _, _ = to.Write([]byte(event)) }()
	got := make([]byte, len(event))
	if _, err := io.ReadFull(m.reader(from), got); err != nil || string(got) != event {
		t.Errorf("%q, %v", got, err)
	}
	broken := io.MultiReader(strings.NewReader("abcabd-sec"), iotest.ErrReader(errors.New("broken")))
	if got, err := io.ReadAll(m.reader(broken)); err == nil || len(got) > 0 {
		t.Errorf("what broke off came out: %q, %v", got, err)
	}
}

func FuzzMask(f *testing.F) {
	f.Add([]byte("a secret-key in text"), "secret-key", 3)
	f.Add([]byte("aaaaaaaaaaaaaaaab"), "aaaaaaaab", 1)
	f.Add([]byte(`%73\u0065&#99;ret-key`), "secret-key", 2)
	f.Fuzz(func(t *testing.T, text []byte, secret string, chunk int) {
		if len(secret) < 8 || strings.Contains(secret, "*") || len(text) > 1<<12 || chunk < 1 {
			return
		}
		m := newMask(secret)
		for _, encode := range encoders() {
			sent := append(append([]byte{}, text...), encode(secret)...)
			got, err := io.ReadAll(m.reader(&chunked{sent, chunk}))
			if err != nil || len(got) != len(sent) || bytes.Contains(got, []byte(secret)) {
				t.Errorf("%q of %q: %q, %v", secret, sent, got, err)
			}
		}
	})
}

type chunked struct {
	b []byte
	n int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.b[:min(c.n, len(c.b))])
	c.b = c.b[n:]
	return n, nil
}
