package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// root is where every distribution mounts them.
const root = "/sys/fs/cgroup"

// cpuPeriod is the scheduler's period in microseconds, its default.
const cpuPeriod = 100_000

// Session is the cgroup of a session's containers; "" where the launcher may not
// make cgroups.
func Session(session string) string {
	if Mode() == "none" {
		return ""
	}
	return "/proctor/" + session
}

// Of is a container's: proctor/<session>/<name>.
func Of(spec sandbox.Spec) string {
	if dir := Session(spec.Session); dir != "" {
		return dir + "/" + spec.Name
	}
	return ""
}

// Mode is "v1", "v2", or "none" where the launcher may not make cgroups.
func Mode() string {
	if os.Geteuid() != 0 {
		return "none"
	}
	var st unix.Statfs_t
	if unix.Statfs(root, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
		return "v2"
	}
	if _, err := os.Stat(root + "/memory/cgroup.procs"); err == nil {
		return "v1"
	}
	return "none"
}

// Missing are the limits that cannot be enforced here.
func Missing() []string {
	switch Mode() {
	case "v1":
		return missing("memory", root+"/memory", "pids", root+"/pids", "cpu", root+"/cpu")
	case "v2":
		return missingControllers(root + "/cgroup.controllers")
	default:
		return []string{"memory", "cpu"} // processes are limited by RLIMIT_NPROC
	}
}

// missing takes pairs of a name and the directory that must exist for it.
func missing(pairs ...string) []string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		if _, err := os.Stat(pairs[i+1]); err != nil {
			out = append(out, pairs[i])
		}
	}
	return out
}

func missingControllers(file string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		return []string{"memory", "pids", "cpu"}
	}
	have := strings.Fields(string(b))
	var out []string
	for _, want := range []string{"memory", "pids", "cpu"} {
		found := false
		for _, h := range have {
			found = found || h == want
		}
		if !found {
			out = append(out, want)
		}
	}
	return out
}

// Resources are the limits as a runtime is told them; nil where there are no
// cgroups.
func Resources(l sandbox.Limits) *specs.LinuxResources {
	if Mode() == "none" {
		return nil
	}
	quota := l.MilliCPUs * cpuPeriod / 1000
	period := uint64(cpuPeriod)
	memory := &specs.LinuxMemory{Limit: &l.Memory}
	if swapLimit() {
		memory.Swap = &l.Memory // swap includes memory: equal means none
	}
	return &specs.LinuxResources{
		Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
		Memory:  memory,
		Pids:    &specs.LinuxPids{Limit: &l.PIDs},
		CPU:     &specs.LinuxCPU{Quota: &quota, Period: &period},
	}
}

// swapLimit: a v1 kernel may be booted without swap accounting.
func swapLimit() bool {
	if Mode() == "v2" {
		return true
	}
	_, err := os.Stat(root + "/memory/memory.memsw.limit_in_bytes")
	return err == nil
}

// Dirs returns the directories of a cgroup in every hierarchy that has it.
func Dirs(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	roots := []string{root}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() {
			roots = append(roots, filepath.Join(root, e.Name()))
		}
	}
	var dirs []string
	for _, r := range roots {
		dir := filepath.Join(r, path)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// ControllerDir is where a controller's files of the cgroup are.
func ControllerDir(controller, path string) string {
	if Mode() == "v2" {
		return filepath.Join(root, path)
	}
	return filepath.Join(root, controller, path)
}

// OOMKilled says whether the kernel killed something in the cgroup for memory.
// It must be asked before the cgroup is removed.
func OOMKilled(path string) (bool, error) {
	if path == "" {
		return false, nil
	}
	file := "memory.events"
	if Mode() == "v1" {
		file = "memory.oom_control"
	}
	b, err := os.ReadFile(filepath.Join(ControllerDir("memory", path), file))
	if err != nil {
		return false, err
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		key, value, _ := strings.Cut(line, " ")
		if key == "oom_kill" {
			return value != "0", nil
		}
	}
	return false, errors.New(file + " has no oom_kill")
}

// Limits is what the kernel enforces; a missing limit is 0.
func Limits(path string) sandbox.Limits {
	var l sandbox.Limits
	if path == "" {
		return l
	}
	read := func(controller, file string) int64 {
		b, err := os.ReadFile(filepath.Join(ControllerDir(controller, path), file))
		if err != nil {
			return 0
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil || n < 0 || n > 1<<60 {
			return 0 // "max", -1, or v1's 2^63 in pages: none
		}
		return n
	}
	l.PIDs = read("pids", "pids.max")
	if Mode() == "v1" {
		l.Memory = read("memory", "memory.limit_in_bytes")
		if swapLimit() && read("memory", "memory.memsw.limit_in_bytes") != l.Memory {
			l.Memory = 0
		}
		l.MilliCPUs = read("cpu", "cpu.cfs_quota_us") * 1000 / cpuPeriod
		return l
	}
	l.Memory = read("memory", "memory.max")
	if b, err := os.ReadFile(filepath.Join(ControllerDir("memory", path), "memory.swap.max")); err == nil && strings.TrimSpace(string(b)) != "0" {
		l.Memory = 0
	}
	l.MilliCPUs = read("cpu", "cpu.max") * 1000 / cpuPeriod
	return l
}

// Remove removes what is left of a cgroup and of everything below it.
// One that still has a process is an error.
func Remove(path string) error {
	dirs, err := Dirs(path)
	if err != nil {
		return err
	}
	var errs []error
	for _, top := range dirs {
		var below []string
		err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				below = append(below, p)
			}
			return nil
		})
		errs = append(errs, err)
		for i := len(below) - 1; i >= 0; i-- {
			if err := os.Remove(below[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
