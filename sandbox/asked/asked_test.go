package asked

import (
	"strings"
	"testing"
)

func TestDifferences(t *testing.T) {
	want := map[string]any{"A": true, "List": []any{"x", "y"}, "Zero": 0.0, "Deep": map[string]any{"B": 1.0, "Empty": ""}}
	same := map[string]any{"A": true, "List": []any{"x", "y"}, "Other": "", "More": []any{}, "Null": nil, "Deep": map[string]any{"B": 1.0, "C": false}}
	if got := Differences("H", want, same, nil); len(got) > 0 {
		t.Errorf("zero, empty and absent are the same, but: %q", got)
	}
	for name, change := range map[string]func(map[string]any){
		"H.A":    func(m map[string]any) { delete(m, "A") },
		"H.List": func(m map[string]any) { m["List"] = []any{"y", "x"} },
		"H.Deep": func(m map[string]any) { m["Deep"] = map[string]any{"B": 1.0, "New": true} },
		"H.Zero": func(m map[string]any) { m["Zero"] = 1.0 },
		"H.New":  func(m map[string]any) { m["New"] = "value" },
		"H.More": func(m map[string]any) { m["More"] = []any{nil, map[string]any{"X": 1.0}} },
	} {
		got := map[string]any{"A": true, "List": []any{"x", "y"}, "Deep": map[string]any{"B": 1.0}}
		change(got)
		if d := Differences("H", want, got, nil); len(d) != 1 || !strings.HasPrefix(d[0], name+" ") {
			t.Errorf("%s: %q", name, d)
		}
	}
	known := map[string]func(any) bool{"New": func(v any) bool { return v == "expected" }}
	for value, n := range map[string]int{"expected": 0, "other": 1} {
		got := map[string]any{"New": value}
		if d := Differences("H", nil, got, known); len(d) != n {
			t.Errorf("a known field with the value %q: %q", value, d)
		}
	}
}
