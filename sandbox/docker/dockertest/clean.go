package dockertest

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// clean ends what a daemon that died may have left: its containerd, its mounts,
// its cgroups and its files.
func clean(t testing.TB, dir, cgroup string) {
	endByPidfile(filepath.Join(dir, "exec", "containerd", "containerd.pid"))
	for _, point := range mountsBelow(t, dir) {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			t.Errorf("unmount %s: %v", point, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Errorf("remove the daemon's files: %v", err)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/" + cgroup, "/sys/fs/cgroup/*/" + cgroup} {
		found, _ := filepath.Glob(pattern)
		for _, d := range found {
			if err := os.Remove(d); err != nil {
				t.Errorf("remove cgroup: %v", err)
			}
		}
	}
}

// endByPidfile kills the process that the file names, if it is still there.
func endByPidfile(file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid <= 1 {
		return
	}
	// The number may be another process's by now.
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || !strings.Contains(string(line), filepath.Dir(file)) {
		return
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	tick := time.NewTicker(tickPeriod)
	defer tick.Stop()
	deadline := time.NewTimer(stopDeadline)
	defer deadline.Stop()
	for unix.Kill(pid, 0) == nil {
		select {
		case <-deadline.C:
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
