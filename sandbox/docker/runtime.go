package docker

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/moby/moby/api/types/system"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/runtimes"
)

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
	if filepath.IsAbs(path) && runtimes.OnlyRootWrites(path) {
		version, _ := runtimes.Version(ctx, path)
		return version
	}
	if name == info.DefaultRuntime {
		return release(info.RuncCommit.ID)
	}
	return ""
}
