package local

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
)

// readBack reports what was made: from /proc of the created process, from its
// cgroup, and, for what the process only takes on when it starts the payload
// (arguments, environment, system call filter), from the config.json that the
// runtime was given. Problems are what can only be judged here.
func (e *Engine) readBack(b *bundle, pid int) (sandbox.Report, []string, error) {
	r := sandbox.Report{Name: b.spec.Name, Role: b.spec.Role, Runtime: b.spec.Runtime}
	st, err := readStatus(pid)
	if err != nil {
		return r, nil, err
	}
	r.HostUID, r.HostGID, r.Groups = st.uid, st.gid, st.groups
	r.Capabilities = st.capabilities
	r.NoNewPrivs = st.noNewPrivs
	r.Limits = e.cgroupLimits(e.cgroupPath(b.spec))
	if err := readRlimits(pid, &r.Limits); err != nil {
		return r, nil, err
	}
	if err := readConfig(b, &r); err != nil {
		return r, nil, err
	}
	problems := e.checkMaps(b.spec.Identity, pid)
	more, err := e.readNamespaces(b, pid, &r)
	return r, append(problems, more...), err
}

// readNamespaces reports the namespaces, the network, the mounts and the filter.
func (e *Engine) readNamespaces(b *bundle, pid int, r *sandbox.Report) (problems []string, err error) {
	state, err := e.readState(b)
	if err != nil {
		return nil, err
	}
	r.Seccomp = state.filtered(b)
	if r.Namespaces, err = ownNamespaces(pid); err != nil {
		return nil, err
	}
	if problems, err = readMounts(b, pid, r); err != nil {
		return nil, err
	}
	r.Network = sandbox.NetworkHost
	if slices.Contains(r.Namespaces, "net") {
		r.Network = sandbox.NetworkNone
	}
	return problems, nil
}

// status is what /proc/PID/status says, in the launcher's user namespace.
type status struct {
	uid, gid     uint32
	groups       []uint32
	capabilities []string
	noNewPrivs   bool
}

func readStatus(pid int) (status, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return status{}, err
	}
	defer f.Close()
	var s status
	seen := 0
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		key, value, _ := strings.Cut(sc.Text(), ":")
		used, err := s.take(key, strings.Fields(value))
		if err != nil {
			return s, fmt.Errorf("read status: %s: %w", key, err)
		}
		seen += used
	}
	if err := sc.Err(); err != nil {
		return s, err
	}
	if seen != 8 {
		return s, errors.New("read status: a field is missing")
	}
	return s, nil
}

// take uses one field and returns how many of the demanded ones it was.
func (s *status) take(key string, v []string) (int, error) {
	var err error
	switch key {
	case "Uid":
		s.uid, err = sameIDs(v)
	case "Gid":
		s.gid, err = sameIDs(v)
	case "Groups":
		for _, g := range v {
			n, err := strconv.ParseUint(g, 10, 32)
			if err != nil {
				return 0, err
			}
			s.groups = append(s.groups, uint32(n))
		}
		return 0, nil
	// Permitted is judged when the payload starts: a process that is not its
	// namespace's root loses it by execve(2), having no ambient set. A full
	// inheritable, effective, bounding or ambient set would stay.
	case "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
		if len(v) != 1 {
			return 0, errors.New("not one value")
		}
		n, err := strconv.ParseUint(v[0], 16, 64)
		if err != nil {
			return 0, err
		}
		if n != 0 {
			s.capabilities = append(s.capabilities, key+"="+v[0])
		}
	case "NoNewPrivs":
		s.noNewPrivs = len(v) == 1 && v[0] == "1"
	default:
		return 0, nil
	}
	return 1, err
}

// sameIDs reads real, effective, saved and file system id, which must be one.
func sameIDs(v []string) (uint32, error) {
	if len(v) != 4 || v[0] != v[1] || v[0] != v[2] || v[0] != v[3] {
		return 0, fmt.Errorf("ids %v are not one id", v)
	}
	n, err := strconv.ParseUint(v[0], 10, 32)
	return uint32(n), err
}

// namespaceFiles are the kernel's names for the report's.
func namespaceFiles() map[string]string {
	return map[string]string{
		"pid": "pid", "ipc": "ipc", "net": "net", "uts": "uts", "mnt": "mnt", "cgroup": "cgroup", "user": "user",
	}
}

// ownNamespaces is those in which the process is not with the launcher. Every
// container makes all of its own, so two never share one.
func ownNamespaces(pid int) ([]string, error) {
	var own []string
	for _, name := range []string{"pid", "ipc", "net", "uts", "mnt", "cgroup", "user"} {
		file := namespaceFiles()[name]
		his, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, file))
		if err != nil {
			return nil, err
		}
		ours, err := os.Readlink("/proc/self/ns/" + file)
		if err != nil {
			return nil, err
		}
		if his != ours {
			own = append(own, name)
		}
	}
	return own, nil
}

// readRlimits fills in what setrlimit(2) bounds.
func readRlimits(pid int, l *sandbox.Limits) error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			l.OpenFiles = lower(rest)
		}
		if rest, ok := strings.CutPrefix(line, "Max processes"); ok && l.PIDs == 0 {
			l.PIDs = int64(lower(rest))
		}
	}
	return nil
}

// lower is the hard limit when both are the same, else 0: no limit.
func lower(fields string) uint64 {
	f := strings.Fields(fields)
	if len(f) < 2 || f[0] != f[1] {
		return 0
	}
	n, err := strconv.ParseUint(f[1], 10, 63)
	if err != nil {
		return 0
	}
	return n
}

// readConfig takes from the runtime's own input what /proc cannot show yet.
func readConfig(b *bundle, r *sandbox.Report) error {
	body, err := os.ReadFile(filepath.Join(b.dir, "config.json"))
	if err != nil {
		return err
	}
	var c specs.Spec
	if err := json.Unmarshal(body, &c); err != nil {
		return fmt.Errorf("read config.json: %w", err)
	}
	if c.Process == nil || c.Linux == nil {
		return errors.New("read config.json: process or linux is missing")
	}
	r.Env, r.Argv, r.Dir = c.Process.Env, c.Process.Args, c.Process.Cwd
	r.ImageDigest = c.Annotations["proctor.image"]
	return nil
}

// checkMaps compares the user namespace's ids, which the Report has no field
// for: an id too many is somebody else's file within reach.
func (e *Engine) checkMaps(id sandbox.Identity, pid int) []string {
	var problems []string
	for file, own := range map[string]int{"uid_map": e.euid, "gid_map": os.Getegid()} {
		want := e.hostMappings(id, own)
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		ok := len(lines) == len(want)
		for i := 0; ok && i < len(lines); i++ {
			var got specs.LinuxIDMapping
			_, err := fmt.Sscan(lines[i], &got.ContainerID, &got.HostID, &got.Size)
			ok = err == nil && got == want[i]
		}
		if !ok {
			problems = append(problems, fmt.Sprintf("%s is %q, want %v", file, b, want))
		}
	}
	return problems
}
