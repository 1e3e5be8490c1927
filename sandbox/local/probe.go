package local

import (
	"context"
	"fmt"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/runtimes"
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
		RecursiveRO:    runtimes.RecursiveReadOnly(),
		Seccomp:        true,
		Cgroup:         cgroup.Mode(),
		LimitsMissing:  cgroup.Missing(),
		RuntimeFloor:   runtimes.Floor(runtime, version),
	}
	if info.Rootless {
		info.Notes = append(info.Notes, "The launcher is an ordinary user: what other users have mounted cannot be seen.")
	}
	return info
}
