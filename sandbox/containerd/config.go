package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/kernel"
	"github.com/proctor-project/proctor/sandbox/layer"
	"github.com/proctor-project/proctor/sandbox/ocispec"
	"github.com/proctor-project/proctor/sandbox/seccomp"
)

// config is the runtime's whole configuration.
func (e *Engine) config(spec sandbox.Spec, mounts []specs.Mount) (*specs.Spec, error) {
	filter, err := seccomp.Linux(spec.Role)
	if err != nil {
		return nil, err
	}
	host := spec.Hostname
	if host == "" {
		host = "proctor"
	}
	config := &specs.Spec{
		Version:  "1.0.2", // what an older shim knows
		Hostname: host,
		Root:     &specs.Root{Path: "rootfs", Readonly: true},
		Process:  ocispec.Process(spec),
		Mounts:   mounts,
		Linux: &specs.Linux{
			Namespaces:    ownNamespaces(spec.Network),
			CgroupsPath:   cgroup.Of(spec),
			Resources:     cgroup.Resources(spec.Limits),
			Seccomp:       filter,
			MaskedPaths:   ocispec.MaskedPaths(),
			ReadonlyPaths: ocispec.ReadonlyPaths(),
		},
	}
	if onRunsc(spec) {
		ownIDs(spec.Identity, config.Linux)
	}
	return config, nil
}

// ownIDs gives the container a user namespace: gVisor's kernel and its gofer
// run as its root, with every capability there, and would be the host's. The
// payload has the same id inside as outside.
func ownIDs(id sandbox.Identity, l *specs.Linux) {
	maps := []specs.LinuxIDMapping{{ContainerID: 0, HostID: id.HostRoot, Size: 1}, {ContainerID: id.Inside, HostID: id.Host, Size: 1}}
	l.UIDMappings, l.GIDMappings = maps, maps
	l.Namespaces = append(l.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
}

func ownNamespaces(n sandbox.Network) []specs.LinuxNamespace {
	all := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace}, {Type: specs.CgroupNamespace},
	}
	if n == sandbox.NetworkHost {
		return all
	}
	return append(all, specs.LinuxNamespace{Type: specs.NetworkNamespace})
}

// place is a container's own directory: its pipes, and its layers.
type place struct {
	dir    string
	layers map[string]mountedLayer // by target
}

type mountedLayer struct {
	layer.Layer
	source string
}

func (e *Engine) sessionDir(session string) string { return filepath.Join(e.cfg.Home, "run", session) }

// makePlace makes the directory. One that exists is somebody else's.
func (e *Engine) makePlace(spec sandbox.Spec) (*place, error) {
	p := &place{dir: filepath.Join(e.sessionDir(spec.Session), spec.Name), layers: map[string]mountedLayer{}}
	e.shape.Lock()
	defer e.shape.Unlock()
	if err := os.MkdirAll(filepath.Dir(p.dir), 0o700); err != nil {
		return nil, err
	}
	return p, os.Mkdir(p.dir, 0o700)
}

// mounts resolves and checks every mount of the spec, a parent before what lies
// in it, after the kernel's own, and makes its layers.
func (e *Engine) mounts(spec sandbox.Spec, p *place) ([]specs.Mount, error) {
	host, err := kernel.Mounts(os.Getpid())
	if err != nil {
		return nil, err
	}
	wanted := append([]sandbox.Mount(nil), spec.Mounts...)
	sort.SliceStable(wanted, func(i, j int) bool {
		return strings.Count(wanted[i].Target, "/") < strings.Count(wanted[j].Target, "/")
	})
	all := ocispec.KernelMounts()
	for i, m := range wanted {
		var made specs.Mount
		switch m.Kind {
		case sandbox.MountBind:
			made, err = e.bind(m)
		case sandbox.MountTmpfs:
			made = ocispec.Tmpfs(m, spec.Identity.Inside)
		case sandbox.MountLayer:
			if onRunsc(spec) {
				m.Writable = true // gVisor's own layer is over it
				made, err = e.bind(m)
				break
			}
			made, err = e.layer(m, p, "layer"+strconv.Itoa(i), host)
		default:
			err = fmt.Errorf("kind %q is not one of engine containerd's", m.Kind)
		}
		if err != nil {
			return nil, fmt.Errorf("mount at %q: %w", m.Target, err)
		}
		all = append(all, made)
	}
	return all, nil
}

func (e *Engine) bind(m sandbox.Mount) (specs.Mount, error) {
	source, err := e.source(m)
	return specs.Mount{Destination: m.Target, Type: "bind", Source: source, Options: ocispec.BindOptions(m.Writable, m.NoExec)}, err
}

func (e *Engine) layer(m sandbox.Mount, p *place, name string, host []kernel.Mount) (specs.Mount, error) {
	if !m.Writable {
		return specs.Mount{}, fmt.Errorf("a layer that nobody may write is a read-only bind")
	}
	source, err := e.source(m)
	if err != nil {
		return specs.Mount{}, err
	}
	if below := kernel.Below(host, source); len(below) > 0 {
		return specs.Mount{}, fmt.Errorf("source %q has %s mounted in it, which a layer would leave out: unmount it first", m.Source, below[0])
	}
	l := mountedLayer{layer.Layer{Dir: filepath.Join(p.dir, name)}, source}
	p.layers[m.Target] = l
	if err := l.Prepare(source, m.Size); err != nil {
		return specs.Mount{}, err
	}
	options := append([]string{"nosuid", "nodev"}, l.Options()...)
	if m.NoExec {
		options = append(options, "noexec")
	}
	return specs.Mount{Destination: m.Target, Type: "overlay", Source: "overlay", Options: options}, nil
}

// source resolves a bind's or layer's source. Of keys and control each part may
// be mounted at its own target, which Validate gives to few roles; everything
// else of home, the daemon's socket and its data are closed.
func (e *Engine) source(m sandbox.Mount) (string, error) {
	closed := []string{e.cfg.Address, "/run/containerd", "/var/lib/containerd", filepath.Join(e.cfg.Home, "run"), filepath.Join(e.cfg.Home, "runc")}
	if !e.parts.Is(m) {
		closed = append(closed, e.parts.Closed()...)
		closed = append(closed, e.cfg.Protected...)
	}
	return sandbox.ResolveSource(m.Source, closed...)
}

// lower is what ocispec.Table asks of a layer.
func (p *place) lower(target string) (name, source string) {
	l, ok := p.layers[target]
	if !ok {
		return "", ""
	}
	return filepath.Join(l.Dir, "lower"), l.source
}
