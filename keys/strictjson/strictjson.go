package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// Limits bound one document. A zero field means its default.
type Limits struct {
	Depth int // nested objects and arrays; default 32
	Size  int // bytes; default 1 MiB
}

const (
	defaultDepth = 32
	defaultSize  = 1 << 20
)

// ErrTooLarge and ErrTooDeep are wrapped by the errors of a document that is
// over its limits, ErrTwice by that of an object with two equal keys.
var (
	ErrTooLarge = errors.New("document too large")
	ErrTooDeep  = errors.New("document too deep")
	ErrTwice    = errors.New("twice")
)

// Reader reads many documents under the same limits and remembers the types
// that it has seen. It is not for concurrent use.
type Reader struct {
	limits  Limits
	plans   map[reflect.Type]*plan
	foreign bool
}

// New returns a reader with the limits.
func New(l Limits) *Reader {
	if l.Depth <= 0 {
		l.Depth = defaultDepth
	}
	if l.Size <= 0 {
		l.Size = defaultSize
	}
	return &Reader{limits: l, plans: map[reflect.Type]*plan{}}
}

// NewForeign returns a reader for documents whose format others define and
// extend: fields that the Go type does not have are passed over, once they are
// known to be well-formed and free of duplicate keys. Everything else is an error
// as before, and so is a passed-over key that differs from a field's in case only.
func NewForeign(l Limits) *Reader {
	r := New(l)
	r.foreign = true
	return r
}

// Unmarshal is New(l).Unmarshal(data, v).
func Unmarshal(data []byte, v any, l Limits) error { return New(l).Unmarshal(data, v) }

// Unmarshal reads the one document in data into the value that v points to.
// The value is replaced whole, and only when there is no error.
func (r *Reader) Unmarshal(data []byte, v any) error {
	if len(data) > r.limits.Size {
		return fmt.Errorf("read json: %w: %d bytes, at most %d", ErrTooLarge, len(data), r.limits.Size)
	}
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("read json: target is %T, not a pointer", v)
	}
	if !utf8.Valid(data) {
		return errors.New("read json: invalid UTF-8")
	}
	w := walker{data: data, depth: r.limits.Depth, plans: r.plans, foreign: r.foreign}
	if err := w.document(target.Type().Elem()); err != nil {
		return fmt.Errorf("read json: at byte %d: %w", w.pos, err)
	}
	fresh := reflect.New(target.Type().Elem())
	dec := json.NewDecoder(bytes.NewReader(data))
	if !r.foreign {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(fresh.Interface()); err != nil {
		return fmt.Errorf("read json: %w", err)
	}
	target.Elem().Set(fresh.Elem())
	return nil
}

// Marshal writes v as compact JSON without HTML escaping. The same value gives
// the same bytes. Text that is not valid UTF-8 is an error: the standard
// encoder would replace it silently.
func Marshal(v any) ([]byte, error) {
	if err := checkText(reflect.ValueOf(v), 0); err != nil {
		return nil, fmt.Errorf("write json: %w", err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write json: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// maxMarshalDepth stops a value that contains itself.
const maxMarshalDepth = 1000

func checkText(v reflect.Value, depth int) error {
	if depth > maxMarshalDepth {
		return ErrTooDeep
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return errors.New("text is not valid UTF-8")
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return checkText(v.Elem(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k >= reflect.Bool && k <= reflect.Complex128 {
			return nil
		}
		for i := range v.Len() {
			if err := checkText(v.Index(i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := errors.Join(checkText(it.Key(), depth+1), checkText(it.Value(), depth+1)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() || v.Type().Field(i).Anonymous {
				if err := checkText(v.Field(i), depth+1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
