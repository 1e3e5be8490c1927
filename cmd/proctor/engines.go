package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/containerd"
	"github.com/proctor-project/proctor/sandbox/docker"
	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sandbox/kernel"
	"github.com/proctor-project/proctor/sandbox/kubernetes"
	"github.com/proctor-project/proctor/sandbox/launch"
	"github.com/proctor-project/proctor/sandbox/local"
	"github.com/proctor-project/proctor/sandbox/subid"
	"github.com/proctor-project/proctor/sandbox/userns"
	"github.com/proctor-project/proctor/sidecar/policy"
)

// engine is an opened engine with the launcher over it.
type engine struct {
	name     string
	engine   sandbox.Engine
	info     sandbox.Info
	launcher *launch.Launcher
	home     *home.Home
	tools    string
	// socket is the daemon's, as the operator named it; "" is the usual one.
	socket string
}

type engineOptions struct {
	name    string // "" means the only one that was initialised
	runtime string
	product string // guarded against mounts, where there is one
}

func (e *engine) close() error { return e.engine.Close() }

// openEngine opens an engine over an initialised home.
func (a *app) openEngine(ctx context.Context, h *home.Home, o engineOptions) (*engine, error) {
	name, err := chooseEngine(h, o.name)
	if err != nil {
		return nil, err
	}
	place, err := h.Config(name)
	if err != nil {
		return nil, err
	}
	cfg, e, err := a.engineOver(ctx, h, place, o)
	if err != nil {
		return nil, err
	}
	if e.launcher, err = launch.New(ctx, cfg); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// chooseEngine is the engine that is meant where none is named.
func chooseEngine(h *home.Home, name string) (string, error) {
	if name != "" {
		return name, checkEngine(name)
	}
	var have []string
	for _, n := range engineNames() {
		if _, err := h.Config(n); err == nil {
			have = append(have, n)
		}
	}
	switch len(have) {
	case 0:
		return "", home.ErrNotInitialised
	case 1:
		return have[0], nil
	}
	return "", &usageError{errors.New("more than one engine has keys here: name one with --engine")}
}

// checkEngine refuses the name of an engine that there is not.
func checkEngine(name string) error {
	if slices.Contains(engineNames(), name) {
		return nil
	}
	return &usageError{fmt.Errorf("--engine %q is none of %s", name, strings.Join(engineNames(), ", "))}
}

// engineNames are those of --engine.
func engineNames() []string {
	return []string{"local", "docker", "containerd", kubernetes.Name}
}

// engineOver makes the engine and what a launcher needs around it.
func (a *app) engineOver(ctx context.Context, h *home.Home, place home.Config, o engineOptions) (launch.Config, *engine, error) {
	tools, err := toolsDir()
	if err != nil {
		return launch.Config{}, nil, err
	}
	e := &engine{name: place.Engine, home: h, tools: tools}
	if e.engine, err = a.makeEngine(h, place, o, e); err != nil {
		return launch.Config{}, nil, err
	}
	if e.info, err = e.engine.Probe(ctx, o.runtime); err != nil {
		return launch.Config{}, nil, errors.Join(err, e.close())
	}
	cfg := launch.Config{Engine: e.engine, Home: h, Tools: tools, Info: e.info, InUserNS: inUserNS, Crash: a.crash()}
	if place.Engine == kubernetes.Name && place.IDs == 0 && os.Geteuid() != 0 && !userns.Possible(ctx) {
		cfg.InUserNS = asSelf
	}
	if place.Engine != "local" && place.Engine != kubernetes.Name {
		cfg.HostUsers = kernel.Users
	}
	if place.IDs > 0 {
		cfg.Lease = leaser(place)
	}
	return cfg, e, nil
}

func (a *app) makeEngine(h *home.Home, place home.Config, o engineOptions, e *engine) (sandbox.Engine, error) {
	switch place.Engine {
	case "local":
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = filepath.Join(h.Dir(), "cache")
		}
		return local.New(local.Config{
			Home:  h.Dir(),
			State: local.DefaultState(os.Geteuid(), a.env("XDG_RUNTIME_DIR"), cache),
			Self:  "/proc/self/exe",
			Crash: a.crash(),
		})
	case kubernetes.Name:
		return kubernetes.New(kubernetes.Config{
			Context: place.Context, Namespace: place.Namespace, Image: place.Image, Place: place.Place, Crash: a.crash(),
		})
	case "docker":
		host := a.flagOr(a.dockerHost, "PROCTOR_DOCKER_HOST")
		e.socket = strings.TrimPrefix(host, "unix://")
		return docker.New(docker.Config{
			Host: host, Supervisor: place.Supervisor, Place: place.Place,
			LayerDir: h.Path("layers"), Protected: protected(h, o, e), Crash: a.crash(),
		})
	case "containerd":
		e.socket = a.flagOr(a.containerd.address, "PROCTOR_CONTAINERD_ADDRESS")
		return containerd.New(containerd.Config{
			Address: e.socket, Namespace: a.flagOr(a.containerd.namespace, "PROCTOR_CONTAINERD_NAMESPACE"),
			Supervisor: place.Supervisor, Place: place.Place, Home: h.Path("containerd"), Protected: protected(h, o, e), Crash: a.crash(),
		})
	}
	return nil, checkEngine(place.Engine)
}

// flagOr is what a flag says, or else the variable.
func (a *app) flagOr(given, variable string) string {
	if given == "" {
		return a.env(variable)
	}
	return given
}

// protected are the directories that no mount of a daemon's container may reach.
func protected(h *home.Home, o engineOptions, e *engine) []string {
	all := []string{
		filepath.Join(h.Dir(), "keys"), filepath.Join(h.Dir(), "control"),
		h.Path("sessions"), h.Path("anchors"), h.Path("seals"), e.tools,
	}
	if o.product != "" {
		all = append(all, o.product)
	}
	return all
}

func leaser(place home.Config) func(context.Context, string) (launch.Block, error) {
	return func(ctx context.Context, holder string) (launch.Block, error) {
		dir, err := leasesDir()
		if err != nil {
			return launch.Block{}, err
		}
		b, err := subid.Lease(ctx, dir, subid.Range{First: place.FirstID, Count: place.IDs}, holder)
		if err != nil {
			return launch.Block{}, err
		}
		return launch.Block{First: b.First}, nil
	}
}

// leasesDir is one for all homes of an account, because they share its ids.
func leasesDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/proctor/leases", nil
	}
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return filepath.Join(u.HomeDir, ".local", "state", "proctor-leases"), nil
}

// inUserNS runs a program of ours as the product's owner and a session's
// identity. Where the two are one, there is one.
func inUserNS(ctx context.Context, c launch.Child) error { return runChild(ctx, c, false) }

// asSelf is for who has one identity and runs nothing of an agent's: a launcher
// in a Pod, whose seccomp filter gives it no namespace.
func asSelf(ctx context.Context, c launch.Child) error { return runChild(ctx, c, true) }

func runChild(ctx context.Context, c launch.Child, asSelf bool) error {
	maps := []userns.Map{{Inside: 0, Host: c.Owner.UID, Group: &c.Owner.GID}}
	if c.Stage.UID != c.Owner.UID {
		maps = append(maps, userns.Map{Inside: 1, Host: c.Stage.UID})
	}
	return userns.Run(ctx, userns.Config{
		Maps: maps, Argv: c.Argv, AsSelf: asSelf,
		Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, ExtraFiles: c.Files,
	})
}

// places are what no mount of the policy may reach.
func (e *engine) places(product, policyPath string) []policy.Place {
	var all []policy.Place
	add := func(what, path string) {
		if loc, err := policy.Locate(path); err == nil {
			all = append(all, policy.Place{What: what, Location: loc})
		}
	}
	add("the product", product)
	add("proctor's home", e.home.Dir())
	add("proctor's programs", e.tools)
	add("the policy", policyPath)
	if dir, err := leasesDir(); err == nil {
		add("the leases of ids", dir)
	}
	if e.socket != "" {
		add("the engine's socket", e.socket)
	}
	for _, s := range []string{"/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock"} {
		add("an engine's socket", s)
	}
	for _, d := range []string{"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers"} {
		add("an engine's data", d)
	}
	return all
}

// refuse is the list of what the operator has to agree to before anything
// starts.
func (e *engine) refuse(given []sandbox.Waiver) error {
	has := func(w sandbox.Waiver) bool {
		for _, g := range given {
			if g == w {
				return true
			}
		}
		return false
	}
	need := func(w sandbox.Waiver, why string) error {
		if has(w) {
			return nil
		}
		return &sandbox.RefusedError{Container: "of engine " + e.name, Problems: []string{why}, Waiver: w}
	}
	var errs []error
	if e.info.RuntimeFloor != "ok" {
		errs = append(errs, need(sandbox.WaiveRuntimeFloor, fmt.Sprintf("%s %s: %s", e.info.Runtime, e.info.RuntimeVersion, e.info.RuntimeFloor)))
	}
	if len(e.info.LimitsMissing) > 0 {
		errs = append(errs, need(sandbox.WaiveNoLimits, fmt.Sprintf("limits not enforced here: %v", e.info.LimitsMissing)))
	}
	if e.launcher.Place().IDs == 0 && e.name != kubernetes.Name { // a Pod's ids are its own
		errs = append(errs, need(sandbox.WaiveOneIdentity, "agent and supervisor would have one identity"))
	}
	return errors.Join(errs...)
}

func (a *app) probe(ctx context.Context, h *home.Home, name, runtime string) (sandbox.Info, error) {
	place, err := h.Config(name)
	if err != nil {
		place = home.Config{Engine: name, Supervisor: 1}
	}
	e, err := a.makeEngine(h, place, engineOptions{}, &engine{tools: "/"})
	if err != nil {
		return sandbox.Info{}, err
	}
	info, err := e.Probe(ctx, runtime)
	return info, errors.Join(err, e.Close())
}
