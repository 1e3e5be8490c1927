package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/seccomp"
)

// shmSize is /dev/shm, in bytes; it counts as the container's memory.
const shmSize = 64 << 20

// maskedPaths and readonlyPaths are the daemon's defaults, asked for by name so
// that an older daemon cannot have fewer.
func maskedPaths() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
		"/sys/devices/virtual/powercap", "/sys/firmware",
	}
}

func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// request is one container as it is asked for, kept for the readback.
type request struct {
	spec    sandbox.Spec
	config  *container.Config
	host    *container.HostConfig
	mounted *mounted
}

// Create makes the container and removes it again if the daemon made anything
// else than what was asked.
func (e *Engine) Create(ctx context.Context, spec sandbox.Spec, streams sandbox.Streams) (sandbox.Container, error) {
	if err := sandbox.Validate(spec); err != nil {
		return nil, refused(spec, err)
	}
	d, err := e.ask(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.permitted(ctx, d, spec); err != nil {
		return nil, err
	}
	image, err := e.inspected(ctx, spec.Image.Digest)
	if err != nil {
		return nil, refused(spec, err)
	}
	if err := errors.Join(e.acceptable(d, spec), imageAllows(spec, image)); err != nil {
		return nil, refused(spec, err)
	}
	m, err := e.mounts(ctx, d, spec)
	if err != nil {
		return nil, refused(spec, err)
	}
	req, err := e.request(d, spec, streams, image, m)
	if err != nil {
		return nil, errors.Join(refused(spec, err), e.dropLayers(context.WithoutCancel(ctx), m.layers))
	}
	made, err := e.api.ContainerCreate(ctx, client.ContainerCreateOptions{Config: req.config, HostConfig: req.host, Name: spec.Name})
	if err != nil {
		err = fmt.Errorf("create container %q: %w", spec.Name, err)
		return nil, errors.Join(err, e.dropLayers(context.WithoutCancel(ctx), m.layers))
	}
	c := &Container{engine: e, id: made.ID, spec: spec, streams: streams, layers: m.layers}
	if c.report, err = e.readBack(ctx, d, made, req, image); err != nil {
		return nil, errors.Join(refused(spec, err), c.Remove(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// refused turns joined errors into the one refusal that names all of them.
func refused(spec sandbox.Spec, err error) error {
	r := &sandbox.RefusedError{Container: spec.Name}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			r.Problems = append(r.Problems, strings.Split(e.Error(), "\n")...)
		}
		return r
	}
	r.Problems = []string{err.Error()}
	return r
}

// permitted refuses what the operator could waive and has not. The floor is for
// the roles that run code which nobody trusts: its CVEs need a hostile process
// or image.
func (e *Engine) permitted(ctx context.Context, d *daemon, spec sandbox.Spec) error {
	missing := d.limitsMissing()
	if len(missing) > 0 && !spec.Waived(sandbox.WaiveNoLimits) {
		return &sandbox.RefusedError{
			Container: spec.Name, Problems: []string{"the daemon cannot limit " + strings.Join(missing, ", ")},
			Waiver: sandbox.WaiveNoLimits, Remedy: "enable the cgroup controllers that the daemon misses (docker info)",
		}
	}
	if !spec.Role.Hostile() || spec.Waived(sandbox.WaiveRuntimeFloor) {
		return nil
	}
	kind := kindOfRuntime(spec.Runtime)
	if verdict := floor(kind, e.versionOf(ctx, d, e.runtimeName(spec.Runtime))); verdict != "ok" {
		return &sandbox.RefusedError{
			Container: spec.Name, Problems: []string{verdict}, Waiver: sandbox.WaiveRuntimeFloor,
			Remedy: "make, and give the daemon that runc as a runtime (dockerd --add-runtime), or update Docker",
		}
	}
	return nil
}

// acceptable is what this engine cannot give, whatever the daemon says.
func (e *Engine) acceptable(d *daemon, spec sandbox.Spec) error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if spec.Identity.Inside != spec.Identity.Host {
		refuse("docker gives containers no user namespace: id %d inside cannot be %d on the host", spec.Identity.Inside, spec.Identity.Host)
	}
	if spec.Role.Hostile() == (spec.Identity.Host == e.cfg.Supervisor) && spec.Role != sandbox.RoleRead {
		refuse("role %s must not run as id %d (the supervisor's is %d)", spec.Role, spec.Identity.Host, e.cfg.Supervisor)
	}
	if _, ok := d.info.Runtimes[e.runtimeName(spec.Runtime)]; !ok {
		refuse("the daemon has no runtime %q", e.runtimeName(spec.Runtime))
	}
	for _, name := range []string{"HOME"} {
		// runc sets HOME itself when it is not given (libcontainer's setupUser).
		if !slices.ContainsFunc(spec.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
			refuse("the environment has no %s, and the runtime would add one", name)
		}
	}
	return errors.Join(errs...)
}

// imageAllows refuses what an image would add and nothing can take away: its
// volumes, unless a mount of the spec stands at the very place.
func imageAllows(spec sandbox.Spec, image client.ImageInspectResult) error {
	if image.Config == nil {
		return nil
	}
	var errs []error
	for path := range image.Config.Volumes {
		if !slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Target == path }) {
			errs = append(errs, fmt.Errorf("the image declares a volume at %q: build it without VOLUME", path))
		}
	}
	for name := range image.Config.Labels {
		if strings.HasPrefix(name, labelPrefix) && spec.Image.Kind != sandbox.ImageSupervisor {
			errs = append(errs, fmt.Errorf("the image has the label %q, which is proctor's own", name))
		}
	}
	return errors.Join(errs...)
}

// environment is the spec's, and the bare name of everything that the image or
// the daemon would add: a name without "=" takes the variable away.
func environment(spec sandbox.Spec, image client.ImageInspectResult) []string {
	env := slices.Clone(spec.Env)
	have := map[string]bool{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		have[name] = true
	}
	names := []string{"PATH", "HOSTNAME", "TERM", "container"}
	if image.Config != nil {
		for _, kv := range image.Config.Env {
			name, _, _ := strings.Cut(kv, "=")
			names = append(names, name)
		}
	}
	for _, name := range names {
		if name != "" && !have[name] {
			have[name] = true
			env = append(env, name)
		}
	}
	return env
}

func (e *Engine) request(d *daemon, spec sandbox.Spec, streams sandbox.Streams, image client.ImageInspectResult, m *mounted) (*request, error) {
	profile, err := seccomp.Moby(spec.Role)
	if err != nil {
		return nil, fmt.Errorf("make seccomp profile: %w", err)
	}
	id := strconv.FormatUint(uint64(spec.Identity.Inside), 10)
	hostname := spec.Hostname
	if hostname == "" {
		hostname = "proctor"
	}
	interactive := streams.Stdin != nil || spec.Terminal
	return &request{
		spec: spec, mounted: m,
		config: &container.Config{
			Hostname: hostname, User: id + ":" + id, Image: spec.Image.Digest,
			Entrypoint: spec.Argv, WorkingDir: spec.Dir, Env: environment(spec, image),
			Tty: spec.Terminal, OpenStdin: interactive, StdinOnce: interactive,
			AttachStdin: interactive, AttachStdout: true, AttachStderr: !spec.Terminal,
			NetworkDisabled: spec.Network == sandbox.NetworkNone,
			Healthcheck:     &container.HealthConfig{Test: []string{"NONE"}},
			StopSignal:      "SIGTERM", Labels: e.containerLabels(spec),
		},
		host: &container.HostConfig{
			NetworkMode: networkMode(spec), IpcMode: container.IPCModePrivate, CgroupnsMode: container.CgroupnsModePrivate,
			CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges", "seccomp=" + string(profile)},
			ReadonlyRootfs: true, MaskedPaths: maskedPaths(), ReadonlyPaths: readonlyPaths(),
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
			LogConfig:     container.LogConfig{Type: "none"},
			Runtime:       e.runtimeName(spec.Runtime), Init: new(bool), ShmSize: shmSize,
			Tmpfs: m.tmpfs, Mounts: m.mounts, Resources: resources(d, spec.Limits),
		},
	}, nil
}

func networkMode(spec sandbox.Spec) container.NetworkMode {
	if spec.Network == sandbox.NetworkHost {
		return "host"
	}
	return "none"
}

// resources asks for what the daemon can enforce; acceptable has refused the
// rest, or the operator waived it.
func resources(d *daemon, l sandbox.Limits) container.Resources {
	r := container.Resources{Ulimits: []*units.Ulimit{
		{Name: "nofile", Soft: int64(l.OpenFiles), Hard: int64(l.OpenFiles)},
		{Name: "core"},
	}}
	if d.info.MemoryLimit {
		r.Memory = l.Memory
		if d.info.SwapLimit {
			r.MemorySwap = l.Memory
		}
	}
	if d.info.PidsLimit {
		r.PidsLimit = &l.PIDs
	}
	if d.info.CPUCfsPeriod && d.info.CPUCfsQuota {
		r.NanoCPUs = l.MilliCPUs * 1e6
	}
	return r
}

// gone reports whether an error says that there is no such container.
func gone(err error) bool { return errdefs.IsNotFound(err) }
