package gvisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/kernel"
	"github.com/proctor-project/proctor/sandbox/ocispec"
)

// Made is a container that runsc has made, payload not started.
type Made struct {
	Spec   sandbox.Spec
	Config *specs.Spec // as it was handed over
	State  State
	Pid    int            // of the sandbox process
	Root   string         // the host's path of the container's root
	Host   []kernel.Mount // the launcher's own view
}

// ReadBack adds to the report what was made: the sandbox's namespaces, ids and
// limits and the gofer's mounts from the kernel, the rest from what runsc has
// written down, because a payload of gVisor's is no process of the host's.
// Problems are what can only be judged here.
func (m Made) ReadBack(r *sandbox.Report) ([]string, error) {
	var err error
	if r.Namespaces, err = kernel.Namespaces(m.Pid); err != nil {
		return nil, err
	}
	// The payload sees gVisor's cgroups and groups of none of the host's.
	if !slices.Contains(r.Namespaces, "cgroup") {
		r.Namespaces = append(r.Namespaces, "cgroup")
	}
	r.Network = sandbox.NetworkHost
	if slices.Contains(r.Namespaces, "net") {
		r.Network = sandbox.NetworkNone
	}
	fromState(m.State.Spec, r)
	r.Limits = cgroup.Limits(cgroup.Of(m.Spec))
	for _, l := range m.State.Spec.Process.Rlimits {
		if l.Type == "RLIMIT_NOFILE" && l.Soft == l.Hard {
			r.Limits.OpenFiles = l.Hard
		}
	}
	var problems []string
	for _, pid := range []int{m.Pid, m.State.GoferPid} {
		problems = append(problems, ocispec.IDMapProblems(pid, m.Config.Linux.UIDMappings, m.Config.Linux.GIDMappings)...)
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", m.Pid))
	if err != nil {
		return nil, err
	}
	for _, o := range Options(m.Spec) {
		if option := "--" + o.Name + "=" + o.Value; !slices.Contains(strings.Split(string(args), "\x00"), option) {
			problems = append(problems, "the sandbox runs without "+option)
		}
	}
	more, err := m.readMounts(r)
	return append(problems, more...), err
}

// fromState takes over what only gVisor's kernel enforces.
func fromState(s specs.Spec, r *sandbox.Report) {
	host := func(maps []specs.LinuxIDMapping, id uint32) uint32 {
		for _, m := range maps {
			if id >= m.ContainerID && id < m.ContainerID+m.Size {
				return m.HostID + id - m.ContainerID
			}
		}
		return 0
	}
	p := s.Process
	r.HostUID, r.HostGID = host(s.Linux.UIDMappings, p.User.UID), host(s.Linux.GIDMappings, p.User.GID)
	for _, g := range p.User.AdditionalGids {
		r.Groups = append(r.Groups, host(s.Linux.GIDMappings, g))
	}
	if c := p.Capabilities; c != nil {
		r.Capabilities = slices.Concat(c.Bounding, c.Effective, c.Permitted, c.Inheritable, c.Ambient)
	} else {
		r.Capabilities = []string{"unspecified"}
	}
	r.Argv, r.Env, r.Dir = p.Args, p.Env, p.Cwd
	r.NoNewPrivs = p.NoNewPrivileges
	r.Seccomp = s.Linux.Seccomp != nil && s.Linux.Seccomp.DefaultAction == specs.ActErrno && len(s.Linux.Seccomp.Syscalls) > 0
	for _, d := range s.Linux.Devices {
		r.Devices = append(r.Devices, d.Path)
	}
}

// readMounts reports the binds from the gofer's mount table, and tmpfs from
// runsc's own list, in which nothing else may be than config.json has.
func (m Made) readMounts(r *sandbox.Report) ([]string, error) {
	known := ocispec.Table{Spec: m.Spec, Host: m.Host, Lower: func(string) (name, source string) { return "", "" }}
	table, err := m.goferTable()
	if err != nil {
		return nil, err
	}
	var problems []string
	wanted := map[string]sandbox.Mount{}
	for _, w := range m.Spec.Mounts {
		wanted[w.Target] = w
		if w.Kind == sandbox.MountTmpfs {
			r.Mounts = append(r.Mounts, sandbox.MountReport{Kind: w.Kind, Target: w.Target, Writable: w.Writable, NoSuid: true, NoDev: true})
		}
	}
	image := map[string]bool{}
	for _, c := range m.Config.Mounts {
		image[c.Destination] = c.Type == "bind"
	}
	for _, at := range table {
		w, asked := wanted[at.Point]
		switch {
		case at.Point == "/":
			r.ReadOnlyRoot = at.Has("ro")
		case asked && w.Kind == sandbox.MountLayer:
			r.Mounts = append(r.Mounts, reportLower(known, w, at))
			if !at.Has("ro") {
				problems = append(problems, fmt.Sprintf("the layer at %q writes to its source", at.Point))
			}
		case asked:
			made := known.Made(w, at)
			made.NoDev = true
			r.Mounts = append(r.Mounts, made)
		case at.FSType == "proc" && at.Has("ro"), at.FSType == "tmpfs" && at.Source == "runsc-proc":
		case image[at.Point] || belowReadOnly(at, m.Config.Mounts):
			if !at.Has("ro") || !at.Has("nosuid") {
				problems = append(problems, fmt.Sprintf("the mount at %q is not ro and nosuid", at.Point))
			}
		default:
			problems = append(problems, fmt.Sprintf("a mount that nobody asked for: %s (%s from %s)", at.Point, at.FSType, at.Root))
		}
	}
	return problems, nil
}

// goferTable is the gofer's mounts once it has made the container's root its
// own: `runsc create` does not wait for that.
func (m Made) goferTable() ([]kernel.Mount, error) {
	real, err := filepath.EvalSymlinks(m.Root)
	if err != nil {
		return nil, err
	}
	at, ok := kernel.PlaceOf(m.Host, real)
	if !ok {
		return nil, errors.New("the container's root lies in no mount")
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(goferPatience); ; <-tick.C {
		table, err := kernel.Mounts(m.State.GoferPid)
		if err != nil {
			return nil, err
		}
		ready := false
		for _, have := range table {
			here := have.Place() == at
			if here && have.Point != "/" {
				ready = false
				break
			}
			ready = ready || here
		}
		if ready {
			return table, nil
		}
		if time.Now().After(until) {
			return nil, errors.New("the gofer's root is not the container's")
		}
	}
}

// goferPatience is how long the gofer may take to get its mounts.
const goferPatience = 10 * time.Second

// reportLower is a layer of gVisor's: writable inside, its source read-only.
func reportLower(known ocispec.Table, w sandbox.Mount, m kernel.Mount) sandbox.MountReport {
	made := known.Made(w, m)
	made.Kind, made.Writable, made.NoDev = sandbox.MountLayer, true, true
	return made
}

// belowReadOnly: a submount of a read-only bind.
func belowReadOnly(m kernel.Mount, mounts []specs.Mount) bool {
	for _, c := range mounts {
		if c.Type == "bind" && sandbox.Within(m.Point, c.Destination) && slices.Contains(c.Options, "ro") {
			return true
		}
	}
	return false
}
