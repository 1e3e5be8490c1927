package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module with one test file and returns its directory.
func module(t *testing.T, body string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.test/m\n\ngo 1.26.0\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\n" + body + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	passing = "func TestGood(t *testing.T) { t.Run(\"sub\", func(*testing.T) {}) }\n"
	failing = "func TestBad(t *testing.T) { t.Log(\"because\"); t.Fail() }\n"
	skipped = "func TestSkipped(t *testing.T) { t.Skip(\"no engine\") }\n"
	hasExit = "func TestExit(t *testing.T) { panic(\"at the disco\") }\n"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, body, expect string
		strict             bool
		exit               int
		say                []string
	}{
		{"good", passing, "m TestGood\nm TestGood/sub # comment\n", true, 0, []string{"tests: 2 passed, 0 failed, 0 skipped", "\nok  \texample.test/m\t"}},
		{"failed", passing + failing, "", true, 1, []string{"failed: example.test/m TestBad", "because", "FAIL\texample.test/m", "\nFAIL\n"}},
		{"skipped", passing + skipped, "", true, 1, []string{"skipped: example.test/m TestSkipped:", "no engine", "\nFAIL\n"}},
		{"skipped, forgiven", passing + skipped, "", false, 0, []string{"skipped: example.test/m TestSkipped:", "no engine"}},
		{"missing", passing, "m TestOther\n", true, 1, []string{"expected, but did not pass: m TestOther", "\nFAIL\n"}},
		{"missing, forgiven", passing, "m TestOther\n", false, 0, []string{"expected, but did not pass: m TestOther"}},
		{"expected and skipped", passing + skipped, "m TestSkipped\n", true, 1, []string{"expected, but did not pass: m TestSkipped"}},
		{"does not build", "func TestGood(t *testing.T) { nothing() }", "", true, 1, []string{"undefined: nothing", "FAIL\texample.test/m [build failed]", "\nFAIL\n"}},
		{"panic", passing + hasExit, "", true, 1, []string{"at the disco", "\nFAIL\n"}},
		{"nothing", "func helper(t *testing.T) {}", "", false, 1, []string{"no test passed", "\nFAIL\n"}},
		{"bad list", passing, "one-word\n", true, 2, []string{"want a package and a test"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := module(t, c.body)
			list := filepath.Join(t.TempDir(), "list")
			if err := os.WriteFile(list, []byte(c.expect), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"-expect", list, "--", "go", "-C", dir, "test", "-json", "./..."}
			if c.strict {
				args = append([]string{"-strict"}, args...)
			}
			var out bytes.Buffer
			errs, err := os.Create(filepath.Join(t.TempDir(), "stderr")) // go test writes to it as well
			if err != nil {
				t.Fatal(err)
			}
			defer errs.Close()
			if exit := run(args, &out, errs); exit != c.exit {
				t.Errorf("exit %d, want %d", exit, c.exit)
			}
			progress, err := os.ReadFile(errs.Name())
			if err != nil {
				t.Fatal(err)
			}
			all := string(progress) + out.String()
			for _, s := range c.say {
				if !strings.Contains(all, s) {
					t.Errorf("does not say %q", s)
				}
			}
			if t.Failed() {
				t.Log(all)
			}
		})
	}
}

func TestCommandThatCannotRun(t *testing.T) {
	var out, errs bytes.Buffer
	if exit := run([]string{"--", "/nonexistent/go"}, &out, &errs); exit != 1 {
		t.Errorf("exit %d: %s%s", exit, out.String(), errs.String())
	}
	if exit := run(nil, &out, &errs); exit != 2 {
		t.Errorf("usage: exit %d", exit)
	}
}
