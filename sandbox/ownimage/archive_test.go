package ownimage

import (
	"os"
	"path/filepath"
	"testing"
)

// TestArchive: the same input makes the same image, and each part of the input
// another one; what is no program makes none.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	file := func(content string) string {
		t.Helper()
		path := filepath.Join(dir, content[len(content)-3:])
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	digests := func(path string, owner uint32) string {
		t.Helper()
		a, err := New(path, owner)
		if err != nil {
			t.Fatal(err)
		}
		return a.Tag + a.DiffID
	}
	one, two := file("\x7fELF one"), file("\x7fELF two")
	first := digests(one, 64003)
	if digests(one, 64003) != first {
		t.Error("the same binary made another image")
	}
	if digests(two, 64003) == first || digests(one, 64004) == first {
		t.Error("another binary or owner made the same image")
	}
	for _, path := range []string{file("#!/bin/sh"), dir, filepath.Join(dir, "missing")} {
		if _, err := New(path, 64003); err == nil {
			t.Errorf("%s was taken", path)
		}
	}
}
