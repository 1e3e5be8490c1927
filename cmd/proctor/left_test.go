package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/programs"
)

// sessionsOf lists every session that a home has or had.
func sessionsOf(home string) []string {
	var ids []string
	for _, pattern := range []string{"host/sessions/*", "host/stages/*", "host/seals/*.json"} {
		found, _ := filepath.Glob(filepath.Join(home, pattern))
		for _, f := range found {
			ids = append(ids, strings.TrimSuffix(filepath.Base(f), ".json"))
		}
	}
	return ids
}

// TestNothingLeftFindsWhatIsLeft is the check's own positive control.
func TestNothingLeftFindsWhatIsLeft(t *testing.T) {
	programs.Need(t)
	dir := t.TempDir()
	bundle := filepath.Join("/run/proctor/sessions", "test-"+filepath.Base(filepath.Dir(dir)), "x")
	if err := os.MkdirAll(bundle, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(bundle)) })
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), []byte(`"`+dir+`/site"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if left := programs.Left(dir, nil); len(left) != 1 {
		t.Errorf("found %q, want the bundle", left)
	}
}
