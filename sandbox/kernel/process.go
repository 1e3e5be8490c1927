package kernel

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
)

// Status is what /proc/PID/status says, in the launcher's user namespace.
type Status struct {
	UID, GID     uint32   // real, effective, saved and file system id, which are one
	Groups       []uint32 // supplementary
	Capabilities []string // SET=bits of the sets that are not empty
	NoNewPrivs   bool
	Filtered     bool // a seccomp filter is in force
	Ended        bool // a zombie, or dead
}

// ReadStatus reads it. Every field that it demands is there, or it fails.
func ReadStatus(pid int) (Status, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Status{}, err
	}
	defer func() { _ = f.Close() }()
	var s Status
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
func (s *Status) take(key string, v []string) (int, error) {
	var err error
	switch key {
	case "Uid":
		s.UID, err = sameIDs(v)
	case "Gid":
		s.GID, err = sameIDs(v)
	case "Groups":
		for _, g := range v {
			n, err := strconv.ParseUint(g, 10, 32)
			if err != nil {
				return 0, err
			}
			s.Groups = append(s.Groups, uint32(n))
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
			s.Capabilities = append(s.Capabilities, key+"="+v[0])
		}
	case "NoNewPrivs":
		s.NoNewPrivs = len(v) == 1 && v[0] == "1"
	case "Seccomp":
		s.Filtered = len(v) == 1 && v[0] == "2"
		return 0, nil
	case "State":
		s.Ended = len(v) > 0 && (v[0] == "Z" || v[0] == "X")
		return 0, nil
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

// Namespaces is those in which the process is not with the launcher. Every
// container makes all of its own, so two never share one.
func Namespaces(pid int) ([]string, error) {
	var own []string
	for _, name := range []string{"pid", "ipc", "net", "uts", "mnt", "cgroup", "user"} {
		his, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
		if err != nil {
			return nil, err
		}
		ours, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return nil, err
		}
		if his != ours {
			own = append(own, name)
		}
	}
	return own, nil
}

// ReadRlimits fills in what setrlimit(2) bounds.
func ReadRlimits(pid int, l *sandbox.Limits) error {
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
