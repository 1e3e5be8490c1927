package asked

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Shape turns a request's part into the shape in which the maker reports it.
func Shape(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return m, nil
}

// Differences compares what was asked with what the maker reports, field by
// field. A field that this program does not know counts: with a value that was
// not asked for it is a difference. Zero, empty and absent are the same. known
// holds the fields that the maker may add, with the test of their value.
func Differences(at string, want, got map[string]any, known map[string]func(any) bool) []string {
	var out []string
	fields := maps.Clone(got)
	maps.Copy(fields, want)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		w, g := canonical(want[name]), canonical(got[name])
		if reflect.DeepEqual(w, g) {
			continue
		}
		if allowed, ok := known[name]; ok && allowed(got[name]) {
			continue
		}
		out = append(out, fmt.Sprintf("%s.%s is %s, and must be %s", at, name, brief(g), brief(w)))
	}
	return out
}

// canonical drops everything that is zero or empty, at every depth.
func canonical(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case bool:
		if !v {
			return nil
		}
	case float64:
		if v == 0 {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	case []any:
		return canonicalList(v)
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			if c := canonical(value); c != nil {
				out[name] = c
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	}
	return v
}

// canonicalList keeps the places of a list that has any value at all.
func canonicalList(v []any) any {
	out := make([]any, len(v))
	empty := true
	for i, value := range v {
		out[i] = canonical(value)
		empty = empty && out[i] == nil
	}
	if empty {
		return nil
	}
	return out
}

// maxBrief bounds one value in a message, in bytes: a seccomp profile is one string.
const maxBrief = 120

func brief(v any) string {
	if v == nil {
		return "empty"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "unprintable"
	}
	if len(raw) > maxBrief {
		return fmt.Sprintf("%q... (%d bytes)", raw[:maxBrief], len(raw))
	}
	return string(raw)
}
