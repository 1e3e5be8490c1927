package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// plan is what a struct type lets a JSON object hold.
type plan struct {
	fields map[string]field
}

type field struct {
	typ      reflect.Type
	required bool
}

// planFor builds the plan of a struct type once. Go types that this package
// cannot hold to its promise (two fields of one name, the string option) are
// errors of the programmer, reported at the first read.
func planFor(plans map[reflect.Type]*plan, t reflect.Type) (*plan, error) {
	if p, ok := plans[t]; ok {
		return p, nil
	}
	p := &plan{fields: map[string]field{}}
	if err := p.collect(t, true); err != nil {
		return nil, err
	}
	plans[t] = p
	return p, nil
}

// folds reports whether the key is one of the fields in other letters: the
// standard decoder takes it for that field.
func (p *plan) folds(key string) bool {
	for name := range p.fields {
		if strings.EqualFold(name, key) {
			return true
		}
	}
	return false
}

func (p *plan) collect(t reflect.Type, required bool) error {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if f.Anonymous && name == "" {
			if f.Type.Kind() != reflect.Struct {
				return fmt.Errorf("type %s: embedded %s is not supported", t, f.Type)
			}
			if err := p.collect(f.Type, required); err != nil {
				return err
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		optional := false
		for o := range strings.SplitSeq(options, ",") {
			switch o {
			case "omitempty", "omitzero":
				optional = true
			case "":
			default:
				return fmt.Errorf("type %s: tag option %q is not supported", t, o)
			}
		}
		if _, ok := p.fields[name]; ok {
			return fmt.Errorf("type %s: two fields named %q", t, name)
		}
		p.fields[name] = field{typ: f.Type, required: required && !optional}
	}
	return nil
}

// shape is how the walker treats a value of a type.
type shape int

const (
	shapeOpaque shape = iota // anything well-formed
	shapeStruct
	shapeMap
	shapeSlice
	shapeArray
	shapeBytes
	shapeScalar
)

func shapeOf(t reflect.Type) shape {
	if t == nil || decodesItself(t) {
		return shapeOpaque
	}
	switch t.Kind() {
	case reflect.Struct:
		return shapeStruct
	case reflect.Map:
		return shapeMap
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && !decodesItself(t.Elem()) {
			return shapeBytes
		}
		return shapeSlice
	case reflect.Array:
		return shapeArray
	case reflect.Interface:
		return shapeOpaque
	default:
		return shapeScalar
	}
}

func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
