package services

import (
	"errors"
	"io"
)

// mask strikes a secret out, in the spellings in which servers echo what they
// were sent (see spelling.go). What is struck out keeps its length.
type mask struct {
	spellings []spelling
	begins    [256]uint64 // which of them may begin with a byte
}

func newMask(texts ...string) mask {
	var m mask
	for _, t := range texts {
		m.spellings = append(m.spellings, spellingsOf(t)...)
	}
	for i, s := range m.spellings {
		for _, a := range s[0] {
			m.begins[a.text[0]] |= 1 << i
			if a.fold {
				m.begins[upper(a.text[0])] |= 1 << i
			}
		}
	}
	return m
}

// text returns s with every spelling struck out.
func (m *mask) text(s string) string {
	b := []byte(s)
	m.strike(b, true)
	return string(b)
}

// strike strikes every spelling out of b, up to where one may go on behind its
// end, which it returns. Nothing is behind the last piece.
func (m *mask) strike(b []byte, last bool) int {
	for at := 0; at < len(b); {
		longest := 0
		for set, i := m.begins[b[at]], 0; set != 0; set, i = set>>1, i+1 {
			if set&1 == 0 {
				continue
			}
			n, open := m.spellings[i].match(b[at:])
			if open && !last {
				return at
			}
			longest = max(longest, n)
		}
		for i := range longest {
			b[at+i] = '*'
		}
		at += max(longest, 1)
	}
	return len(b)
}

// reader strikes out of a stream. It holds back only what may be the beginning
// of a spelling, so that an event passes as soon as it came.
func (m *mask) reader(r io.Reader) io.Reader { return &maskReader{from: r, mask: m} }

type maskReader struct {
	from io.Reader
	mask *mask
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
		whole := r.mask.strike(r.kept, errors.Is(err, io.EOF))
		r.out = append(r.out[:0:0], r.kept[:whole]...)
		r.kept = append(r.kept[:0], r.kept[whole:]...)
		r.err = err
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}
