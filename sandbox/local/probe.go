package local

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
)

// runtimePath is the program for --runtime NAME.
func (e *Engine) runtimePath(runtime string) (string, error) {
	switch runtime {
	case "", "runc":
		if e.cfg.Runc == "" {
			return "", &sandbox.UnavailableError{Engine: "local", Reason: "no runc found", Remedy: "make runc"}
		}
		return e.cfg.Runc, nil
	case "runsc":
		if e.cfg.Runsc == "" {
			return "", &sandbox.UnavailableError{Engine: "local", Reason: "no runsc found", Remedy: "make runsc"}
		}
		return e.cfg.Runsc, nil
	default:
		return "", &sandbox.UnavailableError{
			Engine: "local", Reason: fmt.Sprintf("unknown runtime %q", runtime), Remedy: "use --runtime runc or --runtime runsc",
		}
	}
}

// Probe asks the runtime for its version and the kernel for what limits there
// are. The answer is kept for the engine's life.
func (e *Engine) Probe(ctx context.Context, runtime string) (sandbox.Info, error) {
	if runtime == "" {
		runtime = "runc"
	}
	e.mu.Lock()
	info, ok := e.versions[runtime]
	e.mu.Unlock()
	if ok {
		return info, nil
	}
	path, err := e.runtimePath(runtime)
	if err != nil {
		return sandbox.Info{}, err
	}
	version, err := e.version(ctx, runtime, path)
	if err != nil {
		return sandbox.Info{}, &sandbox.UnavailableError{
			Engine: "local", Reason: fmt.Sprintf("%s --version: %v", path, err), Remedy: "make " + runtime,
		}
	}
	info = e.info(runtime, version)
	e.mu.Lock()
	e.versions[runtime] = info
	e.mu.Unlock()
	return info, nil
}

func (e *Engine) info(runtime, version string) sandbox.Info {
	info := sandbox.Info{
		MountFlags:     true,
		Engine:         "local",
		EngineVersion:  version,
		Runtime:        runtime,
		RuntimeVersion: version,
		UserNamespace:  true,
		Rootless:       e.euid != 0,
		RecursiveRO:    recursiveReadOnly(),
		Seccomp:        true,
		Cgroup:         cgroup.Mode(),
		LimitsMissing:  cgroup.Missing(),
	}
	if runtime == "runc" {
		info.RuntimeFloor = runcFloor(version)
	} else {
		info.RuntimeFloor = runscFloor(version)
	}
	if info.Rootless {
		info.Notes = append(info.Notes, "The launcher is an ordinary user: what other users have mounted cannot be seen.")
	}
	return info
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

// recursiveReadOnly: mount_setattr(2) with AT_RECURSIVE is in Linux 5.12.
func recursiveReadOnly() bool {
	err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{})
	return err != unix.ENOSYS
}
