package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/kernel"
	"github.com/proctor-project/proctor/sandbox/ocispec"
)

// gVisor's runsc runs the same bundles. What a container is made of there:
//
//   - the sandbox process, the container's first as the engine sees it, is
//     gVisor's own kernel: it has the namespace's root as its host id, and the
//     payload has the identity only inside;
//   - the gofer opens files for it: its mounts are what the payload can reach;
//   - "rro" without "ro" is mounted read-write without a word, an overlay among
//     the mounts is left out without a word, and devices are never opened.
//
// A throw-away layer is therefore gVisor's own: all writable binds get one in
// memory, so that a container has layers or writable binds, never both.
func (b *bundle) onRunsc() bool { return runtimeName(b.spec.Runtime) == "runsc" }

// runscArgs are the options of every command.
func (b *bundle) runscArgs() []string {
	overlay := "none"
	if size := b.layerSize(); size > 0 {
		overlay = fmt.Sprintf("all:memory,size=%d", size)
	}
	return []string{
		"--platform=systrap", "--network=none", // own loopback only
		"--host-uds=open", // our sockets can be connected to
		"--oci-seccomp",   // else config.json's filter has no effect
		"--overlay2=" + overlay,
	}
}

func (b *bundle) layerSize() int64 {
	var size int64
	for _, m := range b.spec.Mounts {
		if m.Kind == sandbox.MountLayer {
			size = max(size, m.Size)
		}
	}
	return size
}

// runscPermits refuses what gVisor cannot give.
func (e *Engine) runscPermits(spec sandbox.Spec) []string {
	var problems []string
	if spec.Network != sandbox.NetworkNone {
		problems = append(problems, "runsc has no network here but its own loopback")
	}
	if e.euid != 0 {
		problems = append(problems, "runsc needs a launcher that is root")
	}
	layer, writable := false, false
	for _, m := range spec.Mounts {
		layer = layer || m.Kind == sandbox.MountLayer
		writable = writable || m.Kind == sandbox.MountBind && m.Writable
	}
	if layer && writable {
		problems = append(problems, "runsc cannot have a throw-away layer beside a writable mount")
	}
	return problems
}

// runscState is what runsc has written down of a container.
type runscState struct {
	Spec     specs.Spec `json:"spec"`
	GoferPid int        `json:"goferPid"`
}

func (e *Engine) readRunscState(b *bundle) (runscState, error) {
	var s runscState
	name := b.spec.Name + "_sandbox:" + b.spec.Name + ".state"
	body, err := os.ReadFile(filepath.Join(e.runtimeRoot(b.spec.Session, b.spec.Runtime), name))
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err == nil && (s.Spec.Process == nil || s.Spec.Root == nil || s.Spec.Linux == nil || s.Spec.Linux.Resources == nil || s.GoferPid < 2) {
		err = errors.New("it is incomplete")
	}
	if err != nil {
		return s, fmt.Errorf("read runsc's state: %w", err)
	}
	return s, nil
}

// readBackRunsc reports what was made: the sandbox's namespaces, ids and limits
// and the gofer's mounts from the kernel, the rest from what runsc has written
// down, because a payload of gVisor's is no process of the host's.
func (e *Engine) readBackRunsc(b *bundle, pid int) (sandbox.Report, []string, error) {
	r := sandbox.Report{Name: b.spec.Name, Role: b.spec.Role, Runtime: b.spec.Runtime}
	state, err := e.readRunscState(b)
	if err != nil {
		return r, nil, err
	}
	if err := readConfig(b, &r); err != nil {
		return r, nil, err
	}
	if r.Namespaces, err = kernel.Namespaces(pid); err != nil {
		return r, nil, err
	}
	// The payload sees gVisor's cgroups and groups of none of the host's.
	if !slices.Contains(r.Namespaces, "cgroup") {
		r.Namespaces = append(r.Namespaces, "cgroup")
	}
	r.Network = sandbox.NetworkHost
	if slices.Contains(r.Namespaces, "net") {
		r.Network = sandbox.NetworkNone
	}
	fromRunscSpec(state.Spec, &r)
	r.Limits = cgroup.Limits(cgroup.Of(b.spec))
	for _, l := range state.Spec.Process.Rlimits {
		if l.Type == "RLIMIT_NOFILE" && l.Soft == l.Hard {
			r.Limits.OpenFiles = l.Hard
		}
	}
	problems := e.checkMaps(b.spec.Identity, pid)
	problems = append(problems, e.checkMaps(b.spec.Identity, state.GoferPid)...)
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return r, nil, err
	}
	if !slices.Contains(strings.Split(string(args), "\x00"), "--oci-seccomp=true") {
		r.Seccomp = false
	}
	more, err := readGoferMounts(b, state.GoferPid, &r)
	return r, append(problems, more...), err
}

// fromRunscSpec takes over what only gVisor's kernel enforces.
func fromRunscSpec(s specs.Spec, r *sandbox.Report) {
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
	r.NoNewPrivs = p.NoNewPrivileges
	r.Seccomp = s.Linux.Seccomp != nil && s.Linux.Seccomp.DefaultAction == specs.ActErrno && len(s.Linux.Seccomp.Syscalls) > 0
	for _, d := range s.Linux.Devices {
		r.Devices = append(r.Devices, d.Path)
	}
}

// readGoferMounts reports the binds from the gofer's mount table, and tmpfs from
// runsc's own list, in which nothing else may be than config.json has.
func readGoferMounts(b *bundle, gofer int, r *sandbox.Report) ([]string, error) {
	known, err := b.table()
	if err != nil {
		return nil, err
	}
	table, err := goferTable(b, gofer, known.Host)
	if err != nil {
		return nil, err
	}
	var problems []string
	wanted := map[string]sandbox.Mount{}
	for _, m := range b.spec.Mounts {
		wanted[m.Target] = m
		if m.Kind == sandbox.MountTmpfs {
			r.Mounts = append(r.Mounts, sandbox.MountReport{Kind: m.Kind, Target: m.Target, Writable: m.Writable, NoSuid: true, NoDev: true})
		}
	}
	image := map[string]bool{}
	for _, m := range b.config.Mounts {
		image[m.Destination] = m.Type == "bind"
	}
	for _, m := range table {
		w, asked := wanted[m.Point]
		switch {
		case m.Point == "/":
			r.ReadOnlyRoot = m.Has("ro")
		case asked && w.Kind == sandbox.MountLayer:
			r.Mounts = append(r.Mounts, reportLower(known, w, m))
			if !m.Has("ro") {
				problems = append(problems, fmt.Sprintf("the layer at %q writes to its source", m.Point))
			}
		case asked:
			made := known.Made(w, m)
			made.NoDev = true
			r.Mounts = append(r.Mounts, made)
		case m.FSType == "proc" && m.Has("ro"), m.FSType == "tmpfs" && m.Source == "runsc-proc":
		case image[m.Point] || belowReadOnly(m, b.config.Mounts):
			if !m.Has("ro") || !m.Has("nosuid") {
				problems = append(problems, fmt.Sprintf("the mount at %q is not ro and nosuid", m.Point))
			}
		default:
			problems = append(problems, fmt.Sprintf("a mount that nobody asked for: %s (%s from %s)", m.Point, m.FSType, m.Root))
		}
	}
	return problems, nil
}

// goferTable is the gofer's mounts once it has made the container's root its
// own: `runsc create` does not wait for that.
func goferTable(b *bundle, gofer int, host []kernel.Mount) ([]kernel.Mount, error) {
	real, err := filepath.EvalSymlinks(b.rootfs())
	if err != nil {
		return nil, err
	}
	at, ok := kernel.PlaceOf(host, real)
	if !ok {
		return nil, errors.New("the bundle lies in no mount")
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(goferPatience); ; <-tick.C {
		table, err := kernel.Mounts(gofer)
		if err != nil {
			return nil, err
		}
		ready := false
		for _, m := range table {
			here := m.Place() == at
			if here && m.Point != "/" {
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

// removeRunscLeftovers removes what runsc leaves in its root when no container
// is in it: an empty network namespace that it has mounted there for --network=none.
func removeRunscLeftovers(root string) {
	if left, err := filepath.Glob(filepath.Join(root, "*.state")); err != nil || len(left) > 0 {
		return
	}
	path := filepath.Join(root, "null-netns")
	_ = unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	_ = os.Remove(path)
}
