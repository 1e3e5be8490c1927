package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	const head = "package m\n\nimport \"testing\"\n\n"
	const good = "func FuzzGood(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) {}) }\n"
	const bad = "func FuzzBad(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { if len(b) > 1 { t.Fatal(\"too long\") } }) }\n"
	for _, c := range []struct {
		name, body string
		args       []string
		exit       int
		say        string
	}{
		{"good", good, nil, 0, "1 targets, 0 failed"},
		{"bad", good + bad, nil, 1, "2 targets, 1 failed"},
		{"chosen", good + bad, []string{"-run", "Good"}, 0, "1 targets, 0 failed"},
		{"none", "func TestNone(t *testing.T) {}\n", nil, 1, "no Fuzz target found"},
		{"does not build", "func FuzzX(f *testing.F) { nothing() }\n", nil, 1, "undefined: nothing"},
		{"usage", good, []string{"-jobs", "0"}, 2, "usage:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"go.mod": "module example.test/m\n\ngo 1.26.0\n", "m_test.go": head + c.body} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			var out bytes.Buffer
			exit := run(t.Context(), append(append([]string{"-time", "2s"}, c.args...), "./..."), &out, &out)
			if exit != c.exit || !strings.Contains(out.String(), c.say) {
				t.Errorf("exit %d, want %d and %q:\n%s", exit, c.exit, c.say, out.String())
			}
		})
	}
}
