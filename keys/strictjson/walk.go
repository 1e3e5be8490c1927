package strictjson

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf16"
)

// walker goes through a document beside the Go type that it is read into and
// refuses what the standard decoder would let pass. What is only malformed
// inside a scalar (a number's digits) is left to that decoder.
type walker struct {
	data    []byte
	pos     int
	depth   int
	plans   map[reflect.Type]*plan
	foreign bool // unknown fields are passed over
}

func (w *walker) document(t reflect.Type) error {
	if err := w.value(t); err != nil {
		return err
	}
	w.space()
	if w.pos != len(w.data) {
		return errors.New("data after the document")
	}
	return nil
}

func (w *walker) space() {
	for w.pos < len(w.data) {
		switch w.data[w.pos] {
		case ' ', '\t', '\n', '\r':
			w.pos++
		default:
			return
		}
	}
}

// peek returns the next byte that is not white space, or 0 at the end.
func (w *walker) peek() byte {
	w.space()
	if w.pos >= len(w.data) {
		return 0
	}
	return w.data[w.pos]
}

func (w *walker) expect(c byte) error {
	if w.peek() != c {
		return fmt.Errorf("expected %q", c)
	}
	w.pos++
	return nil
}

func (w *walker) value(t reflect.Type) error {
	nullable := t == nil
	for t != nil && t.Kind() == reflect.Pointer && !decodesItself(t) {
		t, nullable = t.Elem(), true
	}
	s := shapeOf(t)
	switch c := w.peek(); {
	case c == 0:
		return errors.New("unexpected end")
	case c == 'n':
		if !nullable && !nullAllowed(t) {
			return fmt.Errorf("null where %s is needed", t)
		}
		return w.literal("null")
	case c == '{':
		if s != shapeOpaque && s != shapeStruct && s != shapeMap {
			return fmt.Errorf("an object where %s is needed", t)
		}
		return w.nested(t, s, w.object)
	case c == '[':
		if s != shapeOpaque && s != shapeSlice && s != shapeArray {
			return fmt.Errorf("an array where %s is needed", t)
		}
		return w.nested(t, s, w.array)
	case c == '"':
		text, err := w.text()
		if err == nil && s == shapeBytes {
			err = strictBase64(text)
		}
		return err
	case c == 't':
		return w.literal("true")
	case c == 'f':
		return w.literal("false")
	default:
		return w.number()
	}
}

func nullAllowed(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Interface, reflect.Pointer:
		return true
	}
	return false
}

func (w *walker) nested(t reflect.Type, s shape, body func(reflect.Type, shape) error) error {
	if w.depth == 0 {
		return ErrTooDeep
	}
	w.depth--
	w.pos++
	err := body(t, s)
	w.depth++
	return err
}

func (w *walker) object(t reflect.Type, s shape) error {
	var p *plan
	if s == shapeStruct {
		var err error
		if p, err = planFor(w.plans, t); err != nil {
			return err
		}
	}
	seen := map[string]struct{}{}
	if w.peek() == '}' {
		w.pos++
		return missing(p, seen)
	}
	for {
		w.space()
		key, err := w.text()
		if err != nil {
			return err
		}
		if _, dup := seen[key]; dup {
			return fmt.Errorf("key %q %w", key, ErrTwice)
		}
		seen[key] = struct{}{}
		elem, err := w.memberType(t, s, p, key)
		if err != nil {
			return err
		}
		if err := w.expect(':'); err != nil {
			return err
		}
		if err := w.value(elem); err != nil {
			return err
		}
		switch w.peek() {
		case ',':
			w.pos++
		case '}':
			w.pos++
			return missing(p, seen)
		default:
			return errors.New("expected ',' or '}'")
		}
	}
}

// memberType is the Go type of an object's member; nil is a value of any form.
func (w *walker) memberType(t reflect.Type, s shape, p *plan, key string) (reflect.Type, error) {
	switch s {
	case shapeStruct:
		f, ok := p.fields[key]
		if !ok && (!w.foreign || p.folds(key)) {
			return nil, fmt.Errorf("unknown field %q", key)
		}
		return f.typ, nil // nil for one that is passed over
	case shapeMap:
		if t.Key().Kind() != reflect.String || decodesItself(t.Key()) {
			return nil, fmt.Errorf("type %s: only plain text keys are supported", t)
		}
		return t.Elem(), nil
	default:
		return nil, nil
	}
}

func missing(p *plan, seen map[string]struct{}) error {
	if p == nil {
		return nil
	}
	first := ""
	for name, f := range p.fields {
		if _, ok := seen[name]; !ok && f.required && (first == "" || name < first) {
			first = name
		}
	}
	if first != "" {
		return fmt.Errorf("field %q is missing", first)
	}
	return nil
}

func (w *walker) array(t reflect.Type, s shape) error {
	var elem reflect.Type
	if s != shapeOpaque {
		elem = t.Elem()
	}
	n := 0
	if w.peek() == ']' {
		w.pos++
	} else {
		for more := true; more; n++ {
			if err := w.value(elem); err != nil {
				return err
			}
			switch w.peek() {
			case ',':
			case ']':
				more = false
			default:
				return errors.New("expected ',' or ']'")
			}
			w.pos++
		}
	}
	if s == shapeArray && n != t.Len() {
		return fmt.Errorf("%d elements where %d are needed", n, t.Len())
	}
	return nil
}

func (w *walker) literal(word string) error {
	if !strings.HasPrefix(string(w.data[w.pos:min(len(w.data), w.pos+len(word))]), word) {
		return fmt.Errorf("expected %s", word)
	}
	w.pos += len(word)
	return nil
}

func (w *walker) number() error {
	start := w.pos
	for w.pos < len(w.data) && strings.IndexByte("+-.eE0123456789", w.data[w.pos]) >= 0 {
		w.pos++
	}
	if !json.Valid(w.data[start:w.pos]) {
		w.pos = start
		return errors.New("not a JSON value")
	}
	return nil
}

// text reads one string and returns it decoded.
func (w *walker) text() (string, error) {
	if w.pos >= len(w.data) || w.data[w.pos] != '"' {
		return "", errors.New("expected a string")
	}
	w.pos++
	start := w.pos
	for i := start; i < len(w.data); i++ {
		switch c := w.data[i]; {
		case c == '"':
			s := string(w.data[start:i])
			w.pos = i + 1
			return s, nil
		case c < 0x20:
			w.pos = i
			return "", errors.New("control character in a string")
		case c == '\\':
			return w.escapedText(start, i)
		}
	}
	return "", errors.New("unterminated string")
}

// escapedText goes on where text found the first backslash, at i.
func (w *walker) escapedText(start, i int) (string, error) {
	b := append([]byte(nil), w.data[start:i]...)
	for i < len(w.data) {
		c := w.data[i]
		if c == '"' {
			w.pos = i + 1
			return string(b), nil
		}
		if c < 0x20 {
			w.pos = i
			return "", errors.New("control character in a string")
		}
		if c != '\\' {
			b = append(b, c)
			i++
			continue
		}
		r, n, err := unescape(w.data[i:])
		if err != nil {
			w.pos = i
			return "", err
		}
		b = append(b, string(r)...)
		i += n
	}
	return "", errors.New("unterminated string")
}

// unescape reads one escape, a surrogate pair included, and its length.
func unescape(b []byte) (rune, int, error) {
	if len(b) < 2 {
		return 0, 0, errors.New("unterminated escape")
	}
	if i := strings.IndexByte(`"\/bfnrt`, b[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2, nil
	}
	r, ok := hex4(b)
	if !ok {
		return 0, 0, errors.New("unknown escape")
	}
	if !utf16.IsSurrogate(r) {
		return r, 6, nil
	}
	if low, ok := hex4(b[6:]); ok {
		if pair := utf16.DecodeRune(r, low); pair != '\uFFFD' {
			return pair, 12, nil
		}
	}
	return 0, 0, errors.New("half of a surrogate pair")
}

// hex4 reads \uXXXX.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		i := strings.IndexByte("0123456789abcdef", c|0x20)
		if i < 0 || c < '0' {
			return 0, false
		}
		r = r<<4 | rune(i)
	}
	return r, true
}

func strictBase64(s string) error {
	if strings.ContainsAny(s, "\r\n") {
		return errors.New("base64 with a line break")
	}
	if _, err := base64.StdEncoding.Strict().DecodeString(s); err != nil {
		return fmt.Errorf("base64: %w", err)
	}
	return nil
}
