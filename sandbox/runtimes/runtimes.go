package runtimes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// Find looks beside the launcher's executable (bin/NAME, NAME), in the user's
// cache (proctor/bin), then in PATH. It returns "" when there is no such program.
func Find(name string) string {
	var places []string
	if self, err := os.Executable(); err == nil {
		dir := filepath.Dir(self)
		places = append(places, filepath.Join(dir, "bin", name), filepath.Join(dir, name))
	}
	if cache, err := os.UserCacheDir(); err == nil {
		places = append(places, filepath.Join(cache, "proctor", "bin", name))
	}
	for _, p := range places {
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return p
		}
	}
	for _, dir := range []string{"", "/usr/local/sbin/", "/usr/sbin/", "/sbin/"} {
		if p, err := exec.LookPath(dir + name); err == nil && filepath.IsAbs(p) {
			return p
		}
	}
	return ""
}

// probeTimeout bounds a runtime's answer to --version.
const probeTimeout = 10 * time.Second

// Version asks the runtime. It reads the first line of --version: "runc version 1.5.3".
func Version(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{}
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(out), "\n")
	_, version, ok := strings.Cut(line, " version ")
	if !ok {
		return "", fmt.Errorf("answer %.80q has no version", line)
	}
	return strings.TrimSpace(version), nil
}

// OnlyRootWrites reports whether nobody but root and the launcher could change the
// program, or what lies above it: it keeps the launcher from executing what another user put there.
func OnlyRootWrites(path string) bool {
	for p := path; ; p = filepath.Dir(p) {
		var st unix.Stat_t
		if err := unix.Stat(p, &st); err != nil {
			return false
		}
		sticky := st.Mode&unix.S_ISVTX != 0
		if (st.Uid != 0 && int(st.Uid) != os.Geteuid()) || (st.Mode&0o022 != 0 && !sticky) {
			return false
		}
		if p == "/" {
			return true
		}
	}
}

// Floor is "ok", or why a runtime of that version is not known to have the fixes
// that count.
func Floor(runtime, version string) string {
	if runtime == "runc" {
		return sandbox.RuncFloor(version)
	}
	return runscFloor(version)
}

// runscOldest is the first day whose releases are taken: from before, gVisor had
// other platforms, and options that the engine relies on were missing.
const runscOldest = "20240101"

// runscFloor: gVisor's releases are dated (release-20240101.0), and so are the
// versions of its module (v0.0.0-20240101120000-0123456789ab).
func runscFloor(version string) string {
	day := strings.TrimPrefix(strings.TrimPrefix(version, "release-"), "v0.0.0-")
	switch {
	case day == version || len(day) < 8 || strings.Trim(day[:8], "0123456789") != "":
		return fmt.Sprintf("runsc %s: distribution build, unknown", version)
	case day[:8] < runscOldest:
		return fmt.Sprintf("runsc %s is older than release-%s", version, runscOldest)
	default:
		return "ok"
	}
}

// RecursiveReadOnly reports whether the kernel has recursive read-only mounts: mount_setattr(2) with AT_RECURSIVE is in Linux 5.12.
func RecursiveReadOnly() bool {
	err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{})
	return err != unix.ENOSYS
}
