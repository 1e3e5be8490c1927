package ocispec

import (
	"fmt"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
)

// MaskedPaths are the parts of /proc that no container sees: moby's list, plus
// what tells of the host's keys, memory and timers.
func MaskedPaths() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys",
		"/proc/kmsg", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
	}
}

// ReadonlyPaths are those that it can read only.
func ReadonlyPaths() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// shmSize is /dev/shm's limit in bytes; the container's memory limit counts it.
const shmSize = 64 << 20

// KernelMounts are the mounts that every container has before the spec's.
func KernelMounts() []specs.Mount {
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "nodev", "noexec"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "noexec", "strictatime", "mode=755", "size=64k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "nodev", "noexec", "mode=1777", fmt.Sprintf("size=%d", shmSize)}},
	}
}

// Process is the payload's process: no capabilities, no new privileges, and
// nothing of the launcher's environment.
func Process(spec sandbox.Spec) *specs.Process {
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
		},
	}
	if spec.Role.Hostile() {
		score := 500 // the kernel's memory killer takes hostile code first
		p.OOMScoreAdj = &score
	}
	return p
}

// Tmpfs is a mount of that kind, owned by the id as it is inside.
func Tmpfs(m sandbox.Mount, id uint32) specs.Mount {
	opts := []string{"nosuid", "nodev", fmt.Sprintf("size=%d", m.Size)}
	if m.NoExec {
		opts = append(opts, "noexec")
	}
	if !m.Writable {
		opts = append(opts, "ro")
	}
	if filepath.Base(m.Target) == "tmp" {
		opts = append(opts, "mode=1777")
	} else {
		opts = append(opts, "mode=0755", fmt.Sprintf("uid=%d", id), fmt.Sprintf("gid=%d", id))
	}
	return specs.Mount{Destination: m.Target, Type: "tmpfs", Source: "tmpfs", Options: opts}
}

// BindOptions are those of every bind. Read-only is asked for twice: runsc
// takes "rro" alone for read-write without a word, and "ro" alone leaves
// submounts writable. The r-forms reach the submounts.
func BindOptions(writable, noExec bool) []string {
	opts := []string{"rbind", "rprivate", "rnosuid", "rnodev"}
	if noExec {
		opts = append(opts, "rnoexec")
	}
	if writable {
		return append(opts, "rw")
	}
	return append(opts, "ro", "rro")
}
