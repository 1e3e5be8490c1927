package containerd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/gvisor"
	"github.com/proctor-project/proctor/sandbox/kernel"
)

// gVisor has a shim of its own, which is not used: it asks for a container's
// exit status only after the start, and has none to give where the payload was
// faster. containerd's own is the sandbox process's reaper.

func onRunsc(spec sandbox.Spec) bool { return runtimeName(spec.Runtime) == gvisor.Runtime }

// runscRefusals are what gVisor cannot give here.
func runscRefusals(spec sandbox.Spec) []string {
	problems := gvisor.Refusals(spec)
	if id := spec.Identity; id.HostRoot == 0 || id.HostRoot == id.Host {
		problems = append(problems, "runsc needs an id for the root of its user namespace")
	}
	return problems
}

// wrapper makes the program that the shim runs as the runtime: runsc with its
// options, for which the shim has no field.
func (p *place) wrapper(spec sandbox.Spec, runsc string) (string, error) {
	var b strings.Builder
	b.WriteString("#!/bin/sh\nexec '" + strings.ReplaceAll(runsc, "'", `'\''`) + "'")
	for _, o := range gvisor.Options(spec) {
		b.WriteString(" --" + o.Name + "=" + o.Value)
	}
	b.WriteString(" \"$@\"\n")
	path := filepath.Join(p.dir, gvisor.Runtime)
	return path, os.WriteFile(path, []byte(b.String()), 0o700)
}

// runscHome is where runsc keeps what it knows of a container, in a directory
// for the namespace. Each has its own: runsc takes the beginning of a container's
// name for the container.
func runscHome(place string) string { return filepath.Join(place, "state") }

func (e *Engine) runscRoot(place string) string {
	return filepath.Join(runscHome(place), e.cfg.Namespace)
}

// readRunsc takes what runsc has made of the configuration, and what the kernel
// says of the sandbox and of the gofer.
func (e *Engine) readRunsc(c *Container, r *sandbox.Report) ([]string, error) {
	state, err := gvisor.ReadState(e.runscRoot(c.place.dir), c.spec.Name)
	if err != nil {
		return nil, err
	}
	if state.Sandbox.Pid != c.pid() || !filepath.IsAbs(state.Bundle) {
		return nil, errors.New("runsc's state is not this container's")
	}
	problems, err := c.readBundle(state.Bundle, r)
	if err != nil {
		return nil, err
	}
	host, err := kernel.Mounts(os.Getpid())
	if err != nil {
		return nil, err
	}
	more, err := gvisor.Made{
		Spec: c.spec, Config: c.config, State: state, Pid: c.pid(), Root: filepath.Join(state.Bundle, "rootfs"), Host: host,
	}.ReadBack(r)
	problems = append(problems, more...)
	if !slices.Contains(r.Namespaces, "user") {
		problems = append(problems, "the user namespace is shared")
	}
	return problems, err
}
