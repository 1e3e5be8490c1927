package services

import (
	"bytes"
	"encoding/base64"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestMaskAcrossReads(t *testing.T) {
	const secret = "abcabd-secret"
	m := newMask(secret)
	text := "x" + secret + "abcab" + secret + secret[:5] + base64.StdEncoding.EncodeToString([]byte(secret)) + "end abcab"
	for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.HalfReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
		got, err := io.ReadAll(m.reader(r))
		if err != nil || len(got) != len(text) || bytes.Contains(got, []byte(secret)) || !strings.HasSuffix(string(got), "end abcab") || !strings.HasPrefix(string(got), "x*") {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add([]byte("a secret-key in text"), "secret-key", 3)
	f.Add([]byte("aaaaaaaaaaaaaaaab"), "aaaaaaaab", 1)
	f.Fuzz(func(t *testing.T, text []byte, secret string, chunk int) {
		if len(secret) < 8 || strings.Trim(secret, "*") == "" || len(text) > 1<<12 || chunk < 1 {
			return
		}
		got, err := io.ReadAll(newMask(secret).reader(&chunked{text, chunk}))
		if err != nil || len(got) != len(text) || bytes.Contains(got, []byte(secret)) {
			t.Errorf("%q of %q: %q, %v", secret, text, got, err)
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
