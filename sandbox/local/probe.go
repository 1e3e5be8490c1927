package local

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
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
		Cgroup:         e.cgroupMode(),
		LimitsMissing:  e.limitsMissing(),
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

// cgroupMode is "v1", "v2", or "none" where the launcher may not make cgroups.
func (e *Engine) cgroupMode() string {
	if e.euid != 0 {
		return "none"
	}
	var st unix.Statfs_t
	if unix.Statfs(cgroupRoot, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
		return "v2"
	}
	if _, err := os.Stat(cgroupRoot + "/memory/cgroup.procs"); err == nil {
		return "v1"
	}
	return "none"
}

func (e *Engine) limitsMissing() []string {
	switch e.cgroupMode() {
	case "v1":
		return missing("memory", cgroupRoot+"/memory", "pids", cgroupRoot+"/pids", "cpu", cgroupRoot+"/cpu")
	case "v2":
		return missingControllers(cgroupRoot + "/cgroup.controllers")
	default:
		return []string{"memory", "cpu"} // processes are limited by RLIMIT_NPROC
	}
}

// missing takes pairs of a name and the directory that must exist for it.
func missing(pairs ...string) []string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		if _, err := os.Stat(pairs[i+1]); err != nil {
			out = append(out, pairs[i])
		}
	}
	return out
}

func missingControllers(file string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		return []string{"memory", "pids", "cpu"}
	}
	have := strings.Fields(string(b))
	var out []string
	for _, want := range []string{"memory", "pids", "cpu"} {
		found := false
		for _, h := range have {
			found = found || h == want
		}
		if !found {
			out = append(out, want)
		}
	}
	return out
}
