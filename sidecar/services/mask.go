package services

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"slices"
)

// mask strikes a secret out, in each spelling in which a server echoes what it
// was sent. What is struck out keeps its length.
type mask struct{ spellings [][]byte }

func newMask(texts ...string) mask {
	var m mask
	add := func(s string) {
		if s != "" && !slices.ContainsFunc(m.spellings, func(have []byte) bool { return string(have) == s }) {
			m.spellings = append(m.spellings, []byte(s))
		}
	}
	for _, t := range texts {
		add(t)
		add(url.QueryEscape(t))
		add(url.PathEscape(t))
		add(base64.StdEncoding.EncodeToString([]byte(t)))
		add(base64.RawStdEncoding.EncodeToString([]byte(t)))
		add(base64.URLEncoding.EncodeToString([]byte(t)))
		add(base64.RawURLEncoding.EncodeToString([]byte(t)))
		if quoted, err := json.Marshal(t); err == nil {
			add(string(quoted[1 : len(quoted)-1]))
			add(string(bytes.ReplaceAll(quoted[1:len(quoted)-1], []byte("/"), []byte(`\/`))))
		}
	}
	// The longest first: one spelling may lie in another.
	slices.SortStableFunc(m.spellings, func(a, b []byte) int { return len(b) - len(a) })
	return m
}

// text returns s with every spelling struck out.
func (m mask) text(s string) string {
	b := []byte(s)
	m.strike(b)
	return string(b)
}

func (m mask) strike(b []byte) {
	for _, sp := range m.spellings {
		for at := 0; ; {
			i := bytes.Index(b[at:], sp)
			if i < 0 {
				break
			}
			at += i
			for j := range sp {
				b[at+j] = '*'
			}
			at += len(sp)
		}
	}
}

// open is how many bytes at the end of b may be the beginning of a spelling.
func (m mask) open(b []byte) int {
	longest := 0
	for _, sp := range m.spellings {
		for n := min(len(sp)-1, len(b)); n > longest; n-- {
			if bytes.Equal(b[len(b)-n:], sp[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}

// reader strikes out of a stream. It holds back only what may be the beginning
// of a spelling, so that an event passes as soon as it came.
func (m mask) reader(r io.Reader) io.Reader { return &maskReader{from: r, mask: m} }

type maskReader struct {
	from io.Reader
	mask mask
	in   [16 << 10]byte
	kept []byte // may begin a spelling
	out  []byte // is struck out and can go
	err  error
}

func (r *maskReader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		n, err := r.from.Read(r.in[:])
		r.kept = append(r.kept, r.in[:n]...)
		r.mask.strike(r.kept)
		whole := len(r.kept)
		if err == nil {
			whole -= r.mask.open(r.kept)
		} else if !errors.Is(err, io.EOF) {
			whole = 0 // what broke off in the middle of a spelling stays here
		}
		r.out = append(r.out[:0:0], r.kept[:whole]...)
		r.kept = append(r.kept[:0], r.kept[whole:]...)
		r.err = err
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}
