package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
)

// cgroupRoot is where every distribution mounts them.
const cgroupRoot = "/sys/fs/cgroup"

// cpuPeriod is the scheduler's period in microseconds, its default.
const cpuPeriod = 100_000

// cgroupPath is below the hierarchies' roots: proctor/<session>/<name>. "" where
// the launcher may not make cgroups.
func (e *Engine) cgroupPath(spec sandbox.Spec) string {
	if dir := e.sessionCgroup(spec.Session); dir != "" {
		return dir + "/" + spec.Name
	}
	return ""
}

func (e *Engine) sessionCgroup(session string) string {
	if e.cgroupMode() == "none" {
		return ""
	}
	return "/proctor/" + session
}

func (e *Engine) resources(l sandbox.Limits) *specs.LinuxResources {
	if e.cgroupMode() == "none" {
		return nil
	}
	quota := l.MilliCPUs * cpuPeriod / 1000
	period := uint64(cpuPeriod)
	memory := &specs.LinuxMemory{Limit: &l.Memory}
	if e.swapLimit() {
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
func (e *Engine) swapLimit() bool {
	if e.cgroupMode() == "v2" {
		return true
	}
	_, err := os.Stat(cgroupRoot + "/memory/memory.memsw.limit_in_bytes")
	return err == nil
}

// cgroupDirs returns the directories of a cgroup in every hierarchy that has it.
func cgroupDirs(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	roots := []string{cgroupRoot}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() {
			roots = append(roots, filepath.Join(cgroupRoot, e.Name()))
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

// controllerDir is where a controller's files of the cgroup are.
func (e *Engine) controllerDir(controller, path string) string {
	if e.cgroupMode() == "v2" {
		return filepath.Join(cgroupRoot, path)
	}
	return filepath.Join(cgroupRoot, controller, path)
}

// oomKilled says whether the kernel killed something in the cgroup for memory.
// It must be asked before the cgroup is removed.
func (e *Engine) oomKilled(path string) (bool, error) {
	if path == "" {
		return false, nil
	}
	file := "memory.events"
	if e.cgroupMode() == "v1" {
		file = "memory.oom_control"
	}
	b, err := os.ReadFile(filepath.Join(e.controllerDir("memory", path), file))
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

// cgroupLimits is what the kernel enforces; a missing limit is 0.
func (e *Engine) cgroupLimits(path string) sandbox.Limits {
	var l sandbox.Limits
	if path == "" {
		return l
	}
	read := func(controller, file string) int64 {
		b, err := os.ReadFile(filepath.Join(e.controllerDir(controller, path), file))
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
	if e.cgroupMode() == "v1" {
		l.Memory = read("memory", "memory.limit_in_bytes")
		if e.swapLimit() && read("memory", "memory.memsw.limit_in_bytes") != l.Memory {
			l.Memory = 0
		}
		l.MilliCPUs = read("cpu", "cpu.cfs_quota_us") * 1000 / cpuPeriod
		return l
	}
	l.Memory = read("memory", "memory.max")
	if b, err := os.ReadFile(filepath.Join(e.controllerDir("memory", path), "memory.swap.max")); err == nil && strings.TrimSpace(string(b)) != "0" {
		l.Memory = 0
	}
	l.MilliCPUs = read("cpu", "cpu.max") * 1000 / cpuPeriod
	return l
}

// removeCgroups removes what is left of a cgroup and of everything below it.
// One that still has a process is an error.
func removeCgroups(path string) error {
	dirs, err := cgroupDirs(path)
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
