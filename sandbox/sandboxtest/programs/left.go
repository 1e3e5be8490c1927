package programs

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Left reports what the host still has of the sessions whose home and products
// were under dir: a mount, a process, a container's bundle, a cgroup.
func Left(dir string, sessions []string) []string {
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
