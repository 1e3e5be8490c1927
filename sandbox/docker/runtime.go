package docker

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/api/types/system"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// versionDeadline bounds asking a runtime for its version.
const versionDeadline = 5 * time.Second

// floor judges a version of the runtime, as Info.RuntimeFloor.
func floor(kind, version string) string {
	switch {
	case version == "":
		return kind + ": the daemon does not say which version it is, unknown"
	case kind == "runc":
		return sandbox.RuncFloor(version)
	default:
		return kind + " " + version + ": no floor is known for it on docker"
	}
}

// release turns the description of a build from exactly a tag, which Docker's
// own packages report (v1.2.8-0-gHASH), into the tag's version.
func release(version string) string {
	tag, hash, ok := strings.Cut(strings.TrimPrefix(version, "v"), "-0-g")
	if !ok || hash == "" || strings.Trim(hash, "0123456789abcdef") != "" {
		return version
	}
	return tag
}

// runtimeVersion is the version of one of the daemon's runtimes, or "". The
// daemon tells it of its default runtime only; a runtime that it names by an
// absolute path is asked itself.
func runtimeVersion(ctx context.Context, info system.Info, name, path string) string {
	if filepath.IsAbs(path) && onlyRootWrites(path) {
		return askVersion(ctx, path)
	}
	if name == info.DefaultRuntime {
		return release(info.RuncCommit.ID)
	}
	return ""
}

// onlyRootWrites keeps the launcher from executing what another user put there.
func onlyRootWrites(path string) bool {
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

// askVersion reads "runc version 1.3.3" or "runsc version release-2025…".
func askVersion(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, versionDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{}
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for lines.Scan() {
		if _, version, ok := strings.Cut(lines.Text(), " version "); ok {
			return strings.TrimSpace(version)
		}
	}
	return ""
}
