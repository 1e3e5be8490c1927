package local

import (
	"os"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/ocispec"
	"github.com/proctor-project/proctor/sandbox/parts"
	"github.com/proctor-project/proctor/sandbox/seccomp"
)

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
		Process:  payload(spec),
		Mounts:   mounts,
		Linux: &specs.Linux{
			UIDMappings:   e.mappings(spec.Identity, e.euid),
			GIDMappings:   e.mappings(spec.Identity, os.Getegid()),
			Namespaces:    namespaces(spec.Network),
			CgroupsPath:   cgroup.Of(spec),
			Resources:     cgroup.Resources(spec.Limits),
			Seccomp:       filter,
			MaskedPaths:   ocispec.MaskedPaths(),
			ReadonlyPaths: ocispec.ReadonlyPaths(),
		},
		Annotations: map[string]string{
			"proctor.session": spec.Session, "proctor.role": string(spec.Role), "proctor.image": spec.Image.Digest,
		},
	}, nil
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
		{ContainerID: id.Inside, HostID: parts.Owner, Size: 1},
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

// payload also bounds a fork bomb where there is no pids cgroup: this limit is
// counted per user namespace and id.
func payload(spec sandbox.Spec) *specs.Process {
	p := ocispec.Process(spec)
	limit := uint64(spec.Limits.PIDs)
	p.Rlimits = append(p.Rlimits, specs.POSIXRlimit{Type: "RLIMIT_NPROC", Hard: limit, Soft: limit})
	return p
}
