package containerd

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/containerd/containerd/api/types/runc/options"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/runtimes"
)

// runcShim is containerd's name for the shim that drives runc.
const runcShim = "io.containerd.runc.v2"

func runtimeName(runtime string) string {
	if runtime == "" {
		return "runc"
	}
	return runtime
}

// runtimePath is the program for --runtime NAME.
func (e *Engine) runtimePath(runtime string) (string, error) {
	unavailable := func(reason, remedy string) error {
		return &sandbox.UnavailableError{Engine: "containerd", Reason: reason, Remedy: remedy}
	}
	switch name := runtimeName(runtime); name {
	case "runc":
	case "runsc":
		return "", unavailable("what gVisor's shim makes cannot be read back yet", "use --runtime runc, or --engine local --runtime runsc")
	default:
		return "", unavailable(fmt.Sprintf("unknown runtime %q", name), "use --runtime runc")
	}
	path := e.cfg.Runc
	if path == "" {
		path = runtimes.Find("runc")
	}
	switch {
	case path == "":
		return "", unavailable("no runc found", "make runc")
	case !runtimes.OnlyRootWrites(path):
		return "", unavailable(fmt.Sprintf("%s can be changed by others than root, and the daemon would run it as root", path), "make install")
	}
	return path, nil
}

// options are the shim's: the runtime's path, and a place of ours for its state,
// from which is read back what it was really given.
func (e *Engine) options(spec sandbox.Spec, runc string) *options.Options {
	return &options.Options{BinaryName: runc, Root: filepath.Join(e.cfg.Home, "runc"), IoUid: spec.Identity.Host, IoGid: spec.Identity.Host}
}

// Probe asks the daemon and the runtime what they are. It starts nothing.
func (e *Engine) Probe(ctx context.Context, runtime string) (sandbox.Info, error) {
	version, err := e.ask(ctx)
	if err != nil {
		return sandbox.Info{}, err
	}
	path, err := e.runtimePath(runtime)
	if err != nil {
		return sandbox.Info{}, err
	}
	its, err := e.versionOf(ctx, path)
	if err != nil {
		return sandbox.Info{}, &sandbox.UnavailableError{
			Engine: "containerd", Reason: fmt.Sprintf("%s --version: %v", path, err), Remedy: "make " + runtimeName(runtime),
		}
	}
	return sandbox.Info{
		Engine:         "containerd",
		EngineVersion:  version,
		Runtime:        runtimeName(runtime),
		RuntimeVersion: its,
		RuntimeFloor:   runtimes.Floor(runtimeName(runtime), its),
		RecursiveRO:    runtimes.RecursiveReadOnly(),
		MountFlags:     true,
		Seccomp:        true,
		Cgroup:         cgroup.Mode(),
		LimitsMissing:  cgroup.Missing(),
		Notes:          []string{"containerd containers share the host's user namespace; the ids inside are the host's"},
	}, nil
}

// versionOf asks a runtime once.
func (e *Engine) versionOf(ctx context.Context, path string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if version, ok := e.versions[path]; ok {
		return version, nil
	}
	version, err := runtimes.Version(ctx, path)
	if err == nil {
		e.versions[path] = version
	}
	return version, err
}
