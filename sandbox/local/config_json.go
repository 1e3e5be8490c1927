package local

import (
	"fmt"
	"os"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/seccomp"
)

// maskedPaths are the parts of /proc that no container sees: moby's list, plus
// what tells of the host's keys, memory and timers.
func maskedPaths() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys",
		"/proc/kmsg", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
	}
}

func readonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// shmSize is /dev/shm's limit in bytes; the container's memory limit counts it.
const shmSize = 64 << 20

// kernelMounts are the mounts that every container has before the spec's.
func kernelMounts() []specs.Mount {
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "nodev", "noexec"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "noexec", "strictatime", "mode=755", "size=64k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "nodev", "noexec", "mode=1777", fmt.Sprintf("size=%d", shmSize)}},
	}
}

func (e *Engine) config(spec sandbox.Spec, mounts []specs.Mount) (*specs.Spec, error) {
	filter, err := seccomp.Linux(spec.Role)
	if err != nil {
		return nil, err
	}
	host := spec.Hostname
	if host == "" {
		host = "proctor"
	}
	return &specs.Spec{
		Version:  "1.2.0",
		Hostname: host,
		Root:     &specs.Root{Path: "rootfs", Readonly: true},
		Process:  process(spec),
		Mounts:   mounts,
		Linux: &specs.Linux{
			UIDMappings:   e.mappings(spec.Identity, e.euid),
			GIDMappings:   e.mappings(spec.Identity, os.Getegid()),
			Namespaces:    namespaces(spec.Network),
			CgroupsPath:   cgroup.Of(spec),
			Resources:     cgroup.Resources(spec.Limits),
			Seccomp:       filter,
			MaskedPaths:   maskedPaths(),
			ReadonlyPaths: readonlyPaths(),
		},
		Annotations: map[string]string{
			"proctor.session": spec.Session, "proctor.role": string(spec.Role), "proctor.image": spec.Image.Digest,
		},
	}, nil
}

func process(spec sandbox.Spec) *specs.Process {
	umask := uint32(0o022)
	p := &specs.Process{
		Terminal:        spec.Terminal,
		User:            specs.User{UID: spec.Identity.Inside, GID: spec.Identity.Inside, Umask: &umask},
		Args:            spec.Argv,
		Env:             spec.Env,
		Cwd:             spec.Dir,
		Capabilities:    &specs.LinuxCapabilities{},
		NoNewPrivileges: true,
		Rlimits: []specs.POSIXRlimit{
			{Type: "RLIMIT_CORE"}, // a core would hold keys, or fill the stage
			{Type: "RLIMIT_NOFILE", Hard: spec.Limits.OpenFiles, Soft: spec.Limits.OpenFiles},
			// Counted per user namespace and id, so it bounds a fork bomb where
			// there is no pids cgroup.
			{Type: "RLIMIT_NPROC", Hard: uint64(spec.Limits.PIDs), Soft: uint64(spec.Limits.PIDs)},
		},
	}
	if spec.Role.Hostile() {
		score := 500 // the kernel's memory killer takes hostile code first
		p.OOMScoreAdj = &score
	}
	return p
}

// hostMappings are the ids of the container's user namespace: its root, that no
// process of it is, and its identity. An ordinary user is the root of every
// namespace that has the user's subordinate ids; own is that user or group.
func (e *Engine) hostMappings(id sandbox.Identity, own int) []specs.LinuxIDMapping {
	if id.Inside == 0 {
		return []specs.LinuxIDMapping{{ContainerID: 0, HostID: uint32(own), Size: 1}}
	}
	root := id.HostRoot
	if e.euid != 0 {
		root = uint32(own)
	}
	return []specs.LinuxIDMapping{
		{ContainerID: 0, HostID: root, Size: 1},
		{ContainerID: id.Inside, HostID: id.Host, Size: 1},
	}
}

// mappings are hostMappings as the runtime must be told them: by the ids of the
// namespace that it runs in.
func (e *Engine) mappings(id sandbox.Identity, own int) []specs.LinuxIDMapping {
	if !e.nested(id) {
		return e.hostMappings(id, own)
	}
	return []specs.LinuxIDMapping{
		{ContainerID: 0, HostID: 0, Size: 1},
		{ContainerID: id.Inside, HostID: partOwner, Size: 1},
	}
}

func namespaces(n sandbox.Network) []specs.LinuxNamespace {
	all := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace},
		{Type: specs.IPCNamespace},
		{Type: specs.UTSNamespace},
		{Type: specs.MountNamespace},
		{Type: specs.CgroupNamespace},
		{Type: specs.UserNamespace},
	}
	if n == sandbox.NetworkHost {
		return all
	}
	return append(all, specs.LinuxNamespace{Type: specs.NetworkNamespace})
}
