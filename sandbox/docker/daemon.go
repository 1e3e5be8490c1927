package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"

	"github.com/proctor-project/proctor/sandbox"
)

// apiRecursiveRO is the first API version whose read-only binds are recursively
// read-only (Docker 25, BindOptions.ReadOnlyForceRecursive).
const apiRecursiveRO = "1.44"

// daemon is what the daemon said about itself.
type daemon struct {
	info        system.Info
	recursiveRO bool
}

// ask returns what the daemon is, from memory after the first time. A daemon
// that cannot keep the promises is an *sandbox.UnavailableError.
func (e *Engine) ask(ctx context.Context) (*daemon, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.daemon != nil {
		return e.daemon, nil
	}
	if _, err := e.api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, e.unreachable(err)
	}
	res, err := e.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, e.unreachable(err)
	}
	if err := suitable(res.Info); err != nil {
		return nil, err
	}
	e.daemon = &daemon{
		info:        res.Info,
		recursiveRO: versions.GreaterThanOrEqualTo(e.api.ClientVersion(), apiRecursiveRO),
	}
	return e.daemon, nil
}

func (e *Engine) unreachable(err error) error {
	u := &sandbox.UnavailableError{Engine: "docker", Reason: fmt.Sprintf("no daemon answers at %s: %v", e.socket, err)}
	_, statErr := os.Stat(e.socket)
	switch {
	case errors.Is(err, os.ErrPermission), errors.Is(statErr, os.ErrPermission):
		u.Reason = fmt.Sprintf("the socket %s may not be used by this user", e.socket)
		u.Remedy = "run proctor as a member of the docker group, or as root"
	case errors.Is(statErr, os.ErrNotExist):
		u.Reason = fmt.Sprintf("there is no socket %s", e.socket)
		u.Remedy = "start Docker (systemctl start docker), or name its socket with --docker-host"
	default:
		u.Remedy = "start Docker (systemctl start docker), then run proctor doctor"
	}
	return u
}

// suitable refuses, by name, the kinds of Docker whose identities or files are
// not the host's.
func suitable(info system.Info) error {
	refuse := func(reason, remedy string) error {
		return &sandbox.UnavailableError{Engine: "docker", Reason: reason, Remedy: remedy}
	}
	switch {
	case strings.Contains(info.OperatingSystem, "Docker Desktop"):
		return refuse("Docker Desktop is not supported: its containers run in a virtual machine with other ids and mounts",
			"use --engine local, or a Docker Engine on Linux")
	case info.OSType != "linux":
		return refuse(fmt.Sprintf("the daemon runs %q containers, not linux", info.OSType), "use a Docker Engine on Linux")
	case hasSecurity(info, "rootless"):
		return refuse("rootless Docker maps the stage's owner to the container's root",
			"use --engine local, or the system's Docker Engine")
	case hasSecurity(info, "userns"):
		return refuse("the daemon's userns-remap gives containers ids that cannot write the stage",
			"use --engine local, or remove userns-remap from the daemon's configuration")
	case !hasSecurity(info, "seccomp"):
		return refuse("the daemon has no seccomp", "use --engine local, or a Docker Engine built with seccomp")
	}
	return nil
}

// hasSecurity reports whether the daemon lists name=NAME among its security options.
func hasSecurity(info system.Info, name string) bool {
	return slices.ContainsFunc(info.SecurityOptions, func(opt string) bool {
		return slices.Contains(strings.Split(opt, ","), "name="+name)
	})
}

// Probe asks the daemon what it is. It starts nothing.
func (e *Engine) Probe(ctx context.Context, runtime string) (sandbox.Info, error) {
	d, err := e.ask(ctx)
	if err != nil {
		return sandbox.Info{}, err
	}
	name := e.runtimeName(runtime)
	if _, ok := d.info.Runtimes[name]; !ok {
		return sandbox.Info{}, &sandbox.UnavailableError{
			Engine: "docker", Reason: fmt.Sprintf("the daemon has no runtime %q", name),
			Remedy: "add it to the daemon's configuration (runtimes), or choose another with --runtime",
		}
	}
	version := e.versionOf(ctx, d, name)
	info := sandbox.Info{
		Engine:         "docker",
		EngineVersion:  d.info.ServerVersion,
		Runtime:        kindOfRuntime(runtime),
		RuntimeVersion: version,
		RuntimeFloor:   floor(kindOfRuntime(runtime), version),
		RecursiveRO:    d.recursiveRO,
		Seccomp:        true,
		Cgroup:         "v" + d.info.CgroupVersion,
		LimitsMissing:  d.limitsMissing(),
		Notes: []string{
			"docker binds cannot be nosuid or nodev; no-new-privileges and an empty device list stand in for that",
			"docker containers share the host's user namespace; the ids inside are the host's",
		},
	}
	if d.info.CgroupVersion == "" {
		info.Cgroup = "v1"
	}
	if !d.recursiveRO {
		info.Notes = append(info.Notes, "this docker has no recursive read-only binds; a source that has submounts is refused")
	}
	return info, nil
}

// versionOf is runtimeVersion, remembered.
func (e *Engine) versionOf(ctx context.Context, d *daemon, name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	version, ok := e.versions[name]
	if !ok {
		version = runtimeVersion(ctx, d.info, name, d.info.Runtimes[name].Path)
		e.versions[name] = version
	}
	return version
}

func (d *daemon) limitsMissing() []string {
	var missing []string
	if !d.info.MemoryLimit {
		missing = append(missing, "memory")
	}
	if !d.info.PidsLimit {
		missing = append(missing, "pids")
	}
	if !d.info.CPUCfsPeriod || !d.info.CPUCfsQuota {
		missing = append(missing, "cpu")
	}
	return missing
}

// runtimeName is the daemon's name for a Spec's runtime.
func (e *Engine) runtimeName(runtime string) string {
	if kindOfRuntime(runtime) == "runc" {
		return e.cfg.Runc
	}
	return runtime
}

func kindOfRuntime(runtime string) string {
	if runtime == "" {
		return "runc"
	}
	return runtime
}
