package daemon

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Clean ends what a daemon that died may have left with its directory in its
// arguments, its shims, what is in its cgroup if it has one, its mounts and files.
func Clean(t testing.TB, dir, cgroup string) {
	EndWith(t, dir)
	for _, root := range cgroupsOf(cgroup) {
		endCgroup(t, root)
	}
	for _, point := range mountsBelow(t, dir) {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			t.Errorf("unmount %s: %v", point, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Errorf("remove the daemon's files: %v", err)
	}
}

// EndWith kills every process that has all of the texts in its arguments.
func EndWith(t testing.TB, texts ...string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Error(err)
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		holds := func(text string) bool { return bytes.Contains(line, []byte(text)) }
		if err == nil && !slices.ContainsFunc(texts, func(text string) bool { return !holds(text) }) {
			end(t, pid)
		}
	}
}

// end kills a process and returns when it is gone, or a zombie of another's.
func end(t testing.TB, pid int) {
	t.Helper()
	_ = unix.Kill(pid, unix.SIGKILL)
	tick := time.NewTicker(tickPeriod)
	defer tick.Stop()
	deadline := time.NewTimer(stopDeadline)
	defer deadline.Stop()
	for {
		// A zombie has no arguments.
		if line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")); err != nil || len(line) == 0 {
			return
		}
		select {
		case <-deadline.C:
			t.Errorf("process %d did not end", pid)
			return
		case <-tick.C:
		}
	}
}

// cgroupsOf finds the daemon's cgroup in each hierarchy.
func cgroupsOf(cgroup string) []string {
	if cgroup == "" {
		return nil // it would be the host's
	}
	var all []string
	for _, pattern := range []string{"/sys/fs/cgroup/" + cgroup, "/sys/fs/cgroup/*/" + cgroup} {
		found, _ := filepath.Glob(pattern)
		all = append(all, found...)
	}
	return all
}

// endCgroup kills what is in a cgroup and removes it, children first. The
// kernel frees it a moment after its last process.
func endCgroup(t testing.TB, root string) {
	t.Helper()
	children, _ := os.ReadDir(root)
	for _, child := range children {
		if child.IsDir() {
			endCgroup(t, filepath.Join(root, child.Name()))
		}
	}
	procs, _ := os.ReadFile(filepath.Join(root, "cgroup.procs"))
	for field := range strings.FieldsSeq(string(procs)) {
		if pid, err := strconv.Atoi(field); err == nil {
			end(t, pid)
		}
	}
	tick := time.NewTicker(tickPeriod)
	defer tick.Stop()
	deadline := time.NewTimer(stopDeadline)
	defer deadline.Stop()
	for {
		err := os.Remove(root)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		select {
		case <-deadline.C:
			t.Errorf("remove cgroup: %v", err)
			return
		case <-tick.C:
		}
	}
}

// mountsBelow lists mount points below dir, the deepest first.
func mountsBelow(t testing.TB, dir string) []string {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Errorf("read mounts: %v", err)
		return nil
	}
	defer func() { _ = f.Close() }()
	var points []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			points = append([]string{fields[4]}, points...)
		}
	}
	return points
}
