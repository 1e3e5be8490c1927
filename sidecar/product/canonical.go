package product

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"unicode/utf8"
)

// Entries are written in one canonical form of JSON, so that the bytes of a
// manifest follow from the tree alone, and are read by a scanner that accepts
// that form and nothing else. A general JSON reader would understand them too.

var errNotCanonical = errors.New("not in canonical form")

// appendEntry appends e's JSON object to dst.
func appendEntry(dst []byte, e *Entry) []byte {
	dst = append(dst, '{')
	dst = appendPath(dst, e.Path)
	dst = append(dst, `,"type":"`...)
	dst = append(dst, e.Type...)
	dst = append(dst, `","mode":`...)
	dst = strconv.AppendUint(dst, uint64(e.Mode), 10)
	dst = append(dst, `,"size":`...)
	dst = strconv.AppendInt(dst, e.Size, 10)
	if e.SHA256 != ([32]byte{}) {
		dst = append(dst, `,"sha256":"`...)
		dst = hex.AppendEncode(dst, e.SHA256[:])
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// appendPath appends "path":"…", or "path_base64":"…" for a path that is not
// valid UTF-8.
func appendPath(dst []byte, path string) []byte {
	if !utf8.ValidString(path) {
		dst = append(dst, `"path_base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, []byte(path))
		return append(dst, '"')
	}
	dst = append(dst, `"path":"`...)
	return append(appendJSONText(dst, path), '"')
}

// appendJSONText appends s, which is valid UTF-8, with JSON's escapes for the
// quote, the backslash and the control characters.
func appendJSONText(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// parseEntry is appendEntry's inverse. It accepts only what appendEntry writes.
func parseEntry(b []byte) (Entry, error) {
	var e Entry
	s := scanner{rest: b}
	s.literal("{")
	e.Path = s.path()
	s.literal(`,"type":"`)
	e.Type = internType(s.until('"'))
	s.literal(`","mode":`)
	e.Mode = uint32(s.number(0o7777))
	s.literal(`,"size":`)
	e.Size = int64(s.number(1<<63 - 1))
	if s.has(`,"sha256":"`) {
		s.hex(e.SHA256[:])
		s.literal(`"`)
		if e.SHA256 == ([32]byte{}) {
			return Entry{}, errNotCanonical
		}
	}
	s.literal("}")
	if s.bad || len(s.rest) != 0 {
		return Entry{}, errNotCanonical
	}
	if err := e.check(); err != nil {
		return Entry{}, err
	}
	return e, nil
}

// internType avoids an allocation an entry; unknown types are refused by check.
func internType(b []byte) Type {
	for _, t := range [...]Type{TypeFile, TypeDir, TypeSymlink, TypeFIFO, TypeSocket, TypeBlock, TypeChar} {
		if string(b) == string(t) {
			return t
		}
	}
	return ""
}

// scanner reads the pieces of a canonical line. After the first failure, bad is
// set and everything else reads as empty.
type scanner struct {
	rest []byte
	bad  bool
}

func (s *scanner) has(lit string) bool {
	if s.bad || len(s.rest) < len(lit) || string(s.rest[:len(lit)]) != lit {
		return false
	}
	s.rest = s.rest[len(lit):]
	return true
}

func (s *scanner) literal(lit string) {
	if !s.has(lit) {
		s.bad = true
	}
}

// until returns the bytes before the next end, which it leaves in place.
func (s *scanner) until(end byte) []byte {
	for i, c := range s.rest {
		if c == end && !s.bad {
			got := s.rest[:i]
			s.rest = s.rest[i:]
			return got
		}
	}
	s.bad = true
	return nil
}

// number reads a decimal without sign or leading zeros, at most limit.
func (s *scanner) number(limit uint64) uint64 {
	n := 0
	for n < len(s.rest) && s.rest[n] >= '0' && s.rest[n] <= '9' {
		n++
	}
	if s.bad || n == 0 || n > 1 && s.rest[0] == '0' {
		s.bad = true
		return 0
	}
	v, err := strconv.ParseUint(string(s.rest[:n]), 10, 64)
	if err != nil || v > limit {
		s.bad = true
		return 0
	}
	s.rest = s.rest[n:]
	return v
}

// hex reads lower-case hexadecimal into dst.
func (s *scanner) hex(dst []byte) {
	n := 2 * len(dst)
	if s.bad || len(s.rest) < n {
		s.bad = true
		return
	}
	for _, c := range s.rest[:n] {
		if c >= 'A' && c <= 'F' {
			s.bad = true
		}
	}
	if _, err := hex.Decode(dst, s.rest[:n]); err != nil {
		s.bad = true
	}
	s.rest = s.rest[n:]
}

// path reads what appendPath writes.
func (s *scanner) path() string {
	if s.has(`"path_base64":"`) {
		enc := s.until('"')
		raw, err := base64.StdEncoding.Strict().DecodeString(string(enc))
		if err != nil || utf8.Valid(raw) {
			s.bad = true
		}
		for _, c := range enc { // the decoder skips line breaks
			if c == '\r' || c == '\n' {
				s.bad = true
			}
		}
		s.literal(`"`)
		return string(raw)
	}
	s.literal(`"path":"`)
	text := s.text()
	s.literal(`"`)
	return text
}

// text reads what appendJSONText writes, up to the closing quote.
func (s *scanner) text() string {
	end, escaped := 0, false
	for ; end < len(s.rest) && s.rest[end] != '"'; end++ {
		if s.rest[end] < 0x20 {
			s.bad = true
		}
		if s.rest[end] == '\\' {
			escaped = true
			end++
		}
	}
	if s.bad || end >= len(s.rest) || !utf8.Valid(s.rest[:end]) {
		s.bad = true
		return ""
	}
	raw := s.rest[:end]
	s.rest = s.rest[end:]
	if !escaped {
		return string(raw)
	}
	return s.unescape(raw)
}

func (s *scanner) unescape(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			continue
		}
		i++
		switch {
		case raw[i] == '"' || raw[i] == '\\':
			out = append(out, raw[i])
		case raw[i] == 'u' && i+4 < len(raw):
			v, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 16)
			again := appendJSONText(nil, string(rune(v)))
			if err != nil || v >= 0x20 || string(again[1:]) != string(raw[i:i+5]) {
				s.bad = true
				return ""
			}
			out = append(out, byte(v))
			i += 4
		default:
			s.bad = true
			return ""
		}
	}
	return string(out)
}
