package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// differences holds what the API server has against what was asked, value by
// value. What was asked has to be there; what is there beside it has to be known.
func differences(asked, got []byte) ([]string, error) {
	var a, g map[string]any
	if err := parseJSON(asked, &a); err != nil {
		return nil, fmt.Errorf("read what was asked: %w", err)
	}
	if err := parseJSON(got, &g); err != nil {
		return nil, fmt.Errorf("read the API server's answer: %w", err)
	}
	delete(a, "status")
	delete(g, "status")
	var d diff
	d.maps("", a, g)
	slices.Sort(d.all)
	return d.all, nil
}

func parseJSON(b []byte, v any) error { return json.Unmarshal(b, v) }

type diff struct{ all []string }

func (d *diff) note(path, format string, args ...any) {
	d.all = append(d.all, strings.TrimPrefix(path, ".")+" "+fmt.Sprintf(format, args...))
}

func (d *diff) maps(path string, asked, got map[string]any) {
	keys := map[string]bool{}
	for k := range asked {
		keys[k] = true
	}
	for k := range got {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		d.values(path+"."+k, asked[k], got[k])
	}
}

func (d *diff) values(path string, asked, got any) {
	if empty(asked) {
		if !empty(got) && !known(path, got) {
			d.note(path, "is %s, and was not asked for", brief(got))
		}
		return
	}
	if empty(got) {
		d.note(path, "is missing, and was asked for as %s", brief(asked))
		return
	}
	switch a := asked.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			d.maps(path, a, g)
			return
		}
	case []any:
		if g, ok := got.([]any); ok {
			d.lists(path, a, g)
			return
		}
	}
	if !reflect.DeepEqual(asked, got) {
		d.note(path, "is %s, and was asked for as %s", brief(got), brief(asked))
	}
}

// lists keep their order: that of containers is the session's.
func (d *diff) lists(path string, asked, got []any) {
	for i := range max(len(asked), len(got)) {
		switch {
		case i >= len(asked):
			if !known(path+"[]", got[i]) {
				d.note(fmt.Sprintf("%s[%d]", path, i), "is %s, and was not asked for", brief(got[i]))
			}
		case i >= len(got):
			d.note(fmt.Sprintf("%s[%d]", path, i), "is missing, and was asked for as %s", brief(asked[i]))
		default:
			d.values(path+"[]", asked[i], got[i])
		}
	}
}

// empty is how an unset field looks, however it is written.
func empty(v any) bool {
	switch t := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, inner := range t {
			if !empty(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(t) == 0
	case string:
		return t == ""
	}
	return false
}

func brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "unreadable"
	}
	const most = 200
	if len(b) > most {
		b = append(b[:most:most], "…"...)
	}
	return string(b)
}
