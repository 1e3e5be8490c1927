package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What was kept of one file is believed of no other: not of one at the same
// place, of the same size and with the same times.
func TestVersionIsKeptForTheSameFileOnly(t *testing.T) {
	h := newHarness(t)
	path := filepath.Join(h.dir, "runtime")
	build := func(version string) {
		t.Helper()
		src := filepath.Join(h.dir, "main.go")
		text := "package main\n\nfunc main() { println2() }\n\nfunc println2() { _, _ = os.Stdout.WriteString(\"runc version " + version + "\\n\") }\n"
		text = strings.Replace(text, "\n\n", "\n\nimport \"os\"\n\n", 1)
		if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", "build", "-o", path, src).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	ask := func() string {
		t.Helper()
		got, err := h.engine.version(t.Context(), "runc", path)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	build("1.5.3")
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != "1.5.3" {
		t.Fatalf("version %q", got)
	}
	kept := filepath.Join(h.engine.cfg.State, "version-runc")
	b, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	// The control: it is what was kept that is answered.
	if err := os.WriteFile(kept, []byte(strings.Replace(string(b), " 1.5.3", " 7.7.7", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != "7.7.7" {
		t.Errorf("version %q: it was asked again", got)
	}
	// In place: the same inode.
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(body), "version 1.5.3", "version 1.1.5")), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != "1.1.5" {
		t.Errorf("version %q of a file that was overwritten", got)
	}
	// Another one in its place.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	build("1.2.3")
	if err := os.Chtimes(path, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != "1.2.3" {
		t.Errorf("version %q of a file that was replaced", got)
	}
	// A script may run whatever program: it is asked each time.
	script := filepath.Join(h.dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho runc version $(cat "+h.dir+"/v)\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	path = script
	for _, want := range []string{"3.0.0", "3.0.1"} {
		if err := os.WriteFile(filepath.Join(h.dir, "v"), []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ask(); got != want {
			t.Errorf("version %q of a script, not %q", got, want)
		}
	}
}
