package containerd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
)

// request is one container as it is asked for, kept for the readback.
type request struct {
	spec   sandbox.Spec
	image  client.Image
	config *specs.Spec
	place  *place
}

// Create makes the container, payload not started, and removes it again if
// anything else was made than what was asked.
func (e *Engine) Create(ctx context.Context, spec sandbox.Spec, given sandbox.Streams) (sandbox.Container, error) {
	if err := sandbox.Validate(spec); err != nil {
		return nil, refused(spec, err)
	}
	info, err := e.Probe(ctx, spec.Runtime)
	if err != nil {
		return nil, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	if err := permitted(spec, info); err != nil {
		return nil, err
	}
	if problems := runscRefusals(spec); onRunsc(spec) && len(problems) > 0 {
		return nil, &sandbox.RefusedError{Container: spec.Name, Problems: problems, Remedy: "use --runtime runc"}
	}
	image, err := e.byDigest(ctx, spec.Image.Digest)
	if err != nil {
		return nil, refused(spec, err)
	}
	config, err := image.Spec(ctx)
	if err != nil {
		return nil, fmt.Errorf("create container %q: read image: %w", spec.Name, err)
	}
	if err := errors.Join(e.acceptable(spec), imageAllows(spec, config)); err != nil {
		return nil, refused(spec, err)
	}
	c, err := e.create(ctx, spec, given, image)
	if err != nil {
		return nil, err
	}
	if c.report, err = e.readBack(ctx, c); err != nil {
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
func permitted(spec sandbox.Spec, info sandbox.Info) error {
	refuse := func(w sandbox.Waiver, problem, remedy string) error {
		return &sandbox.RefusedError{Container: spec.Name, Problems: []string{problem}, Waiver: w, Remedy: remedy}
	}
	switch {
	case len(info.LimitsMissing) > 0 && !spec.Waived(sandbox.WaiveNoLimits):
		return refuse(sandbox.WaiveNoLimits, "limits that cannot be enforced: "+strings.Join(info.LimitsMissing, ", "), "mount the cgroup controllers")
	case spec.Role.Hostile() && info.RuntimeFloor != "ok" && !spec.Waived(sandbox.WaiveRuntimeFloor):
		return refuse(sandbox.WaiveRuntimeFloor, info.RuntimeFloor, "make "+info.Runtime)
	case !info.RecursiveRO:
		return refuse("", "the kernel has no recursive read-only mounts", "use Linux 5.12 or newer")
	}
	return nil
}

// acceptable is what this engine cannot give.
func (e *Engine) acceptable(spec sandbox.Spec) error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if spec.Identity.Inside != spec.Identity.Host {
		refuse("engine containerd gives containers no user namespace: id %d inside cannot be %d on the host", spec.Identity.Inside, spec.Identity.Host)
	}
	if spec.Role.Hostile() == (spec.Identity.Host == e.cfg.Supervisor) && spec.Role != sandbox.RoleRead {
		refuse("role %s must not run as id %d (the supervisor's is %d)", spec.Role, spec.Identity.Host, e.cfg.Supervisor)
	}
	// runc sets HOME itself when it is not given (libcontainer's setupUser).
	if !slices.ContainsFunc(spec.Env, func(kv string) bool { return strings.HasPrefix(kv, "HOME=") }) {
		refuse("the environment has no HOME, and the runtime would add one")
	}
	return errors.Join(errs...)
}

// create has containerd and the runtime make the container. On an error nothing
// is left.
func (e *Engine) create(ctx context.Context, spec sandbox.Spec, given sandbox.Streams, image client.Image) (_ *Container, err error) {
	req := &request{spec: spec, image: image}
	if req.place, err = e.makePlace(spec); err != nil {
		return nil, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	c := &Container{engine: e, request: req, done: make(chan struct{}), pidfd: -1}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.discard(context.WithoutCancel(ctx)))
		}
	}()
	mounts, err := e.mounts(spec, req.place)
	if err != nil {
		return nil, refused(spec, err)
	}
	if req.config, err = e.config(spec, mounts); err != nil {
		return nil, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	options, err := e.options(spec, req.place)
	if err != nil {
		return nil, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	if c.io, err = newStreams(req.place.dir, spec, given, e.cfg.Crash); err != nil {
		return nil, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	labels := e.labels(spec)
	c.container, err = e.api.NewContainer(ctx, spec.Name,
		client.WithNewSnapshot(spec.Name, image, snapshots.WithLabels(labels)),
		client.WithSpec(req.config), client.WithContainerLabels(labels),
		client.WithRuntime(runcShim, options))
	if err != nil {
		return nil, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	if onRunsc(spec) {
		if err := e.makePlaces(ctx, c); err != nil {
			return nil, refused(spec, err)
		}
	}
	if c.task, err = c.container.NewTask(ctx, func(string) (cio.IO, error) { return c.io, nil }); err != nil {
		return nil, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	return c, c.follow(ctx)
}
