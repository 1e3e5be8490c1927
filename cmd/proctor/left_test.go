package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// nothingLeft reports what the host still has of the sessions whose home and
// products were under dir: a container's directory, a cgroup, a mount, a
// process.
func nothingLeft(dir string, sessions []string) []string {
	var left []string
	self, _ := os.ReadFile("/proc/self/mountinfo")
	if bytes.Contains(self, []byte(dir+"/")) {
		left = append(left, "a mount: "+lineWith(self, dir+"/"))
	}
	pids, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range pids {
		cmdline, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		mounts, _ := os.ReadFile(filepath.Join(p, "mountinfo"))
		if bytes.Contains(cmdline, []byte(dir+"/")) || bytes.Contains(mounts, []byte(dir+"/")) {
			left = append(left, "a process: "+p+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	_ = filepath.WalkDir("/run/proctor", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "config.json" {
			return nil //nolint:nilerr // others' sessions come and go while this looks
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(dir+"/")) {
			left = append(left, "a bundle: "+path)
		}
		return nil
	})
	for _, id := range sessions {
		for _, pattern := range []string{"/run/proctor/sessions/" + id + "*", "/sys/fs/cgroup/proctor/" + id + "*", "/sys/fs/cgroup/*/proctor/" + id + "*"} {
			found, _ := filepath.Glob(pattern)
			left = append(left, found...)
		}
	}
	return left
}

func lineWith(text []byte, part string) string {
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte(part)) {
			return string(bytes.TrimSpace(line))
		}
	}
	return ""
}

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
	needPrograms(t)
	dir := t.TempDir()
	bundle := filepath.Join("/run/proctor/sessions", "test-"+filepath.Base(filepath.Dir(dir)), "x")
	if err := os.MkdirAll(bundle, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(bundle)) })
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), []byte(`"`+dir+`/site"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if left := nothingLeft(dir, nil); len(left) != 1 {
		t.Errorf("found %q, want the bundle", left)
	}
}
