package containerd

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/containerd/containerd/api/types/runc/options"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/gvisor"
	"github.com/proctor-project/proctor/sandbox/runtimes"
)

// runcShim is containerd's name for the shim that drives a runtime with runc's
// commands, which runsc's are, too.
const runcShim = "io.containerd.runc.v2"

func runtimeName(runtime string) string {
	if runtime == "" {
		return "runc"
	}
	return runtime
}

// runtimePath is the program for --runtime NAME.
func (e *Engine) runtimePath(runtime string) (string, error) {
	switch name := runtimeName(runtime); name {
	case "runc":
		return program(name, e.cfg.Runc, "make runc")
	case gvisor.Runtime:
		return program(name, e.cfg.Runsc, "make runsc")
	default:
		return "", &sandbox.UnavailableError{Engine: "containerd", Reason: fmt.Sprintf("unknown runtime %q", name), Remedy: "use --runtime runc"}
	}
}

// program is one that the daemon runs as root.
func program(name, path, remedy string) (string, error) {
	if path == "" {
		path = runtimes.Find(name)
	}
	switch {
	case path == "":
		return "", &sandbox.UnavailableError{Engine: "containerd", Reason: "no " + name + " found", Remedy: remedy}
	case !runtimes.OnlyRootWrites(path):
		return "", &sandbox.UnavailableError{
			Engine: "containerd", Reason: fmt.Sprintf("%s can be changed by others than root, and the daemon would run it as root", path), Remedy: "make install",
		}
	}
	return path, nil
}

// options are the shim's: the runtime's path, and a place of ours for its state,
// from which is read back what it was really given.
func (e *Engine) options(spec sandbox.Spec, p *place) (*options.Options, error) {
	path, err := e.runtimePath(spec.Runtime)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(e.cfg.Home, "runc")
	if onRunsc(spec) {
		root = runscHome(p.dir)
		if path, err = p.wrapper(spec, path); err != nil {
			return nil, err
		}
	}
	return &options.Options{BinaryName: path, Root: root, IoUid: spec.Identity.Host, IoGid: spec.Identity.Host}, nil
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
	note := "containerd containers share the host's user namespace; the ids inside are the host's"
	if runtimeName(runtime) == gvisor.Runtime {
		note = "agents and checks on runsc have a user namespace, the other containers share the host's; the ids inside are the host's"
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
		Notes:          []string{note},
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
