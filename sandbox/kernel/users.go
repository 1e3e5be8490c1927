package kernel

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
)

// Users names every process, one for each mount namespace but the launcher's
// own, in which the directory, a part of it or a parent of it is mounted,
// whatever made the mount. A host service that has a mount namespace of its own
// sees the host's mounts where the launcher sees them; that is no more than any
// process of the host has, and not counted.
//
// An ordinary user cannot look into other users' processes and is not told of
// their mounts.
func Users(ctx context.Context, hostDir string) ([]string, error) {
	users, err := findUsers(ctx, hostDir)
	if err != nil {
		return nil, fmt.Errorf("look for users of %q: %w", hostDir, err)
	}
	return users, nil
}

func findUsers(ctx context.Context, hostDir string) ([]string, error) {
	dir, err := filepath.EvalSymlinks(hostDir)
	if err != nil {
		return nil, err
	}
	host, err := Mounts(os.Getpid())
	if err != nil {
		return nil, err
	}
	// The directory may be reached by several mounts of the host; each of them
	// is a name of the same place.
	at, ok := PlaceOf(host, dir)
	if !ok {
		return nil, fmt.Errorf("no mount holds it")
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, err
	}
	ordinary := map[mountKey]bool{}
	for _, m := range host {
		ordinary[m.key()] = true
	}
	seen := map[string]bool{ours: true}
	var users []string
	pids, err := Processes()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
		if err != nil || seen[ns] {
			continue // it ended, or it is another user's
		}
		mounts, err := Mounts(pid)
		if err != nil {
			continue
		}
		seen[ns] = true
		if point, ok := touches(mounts, at, ordinary); ok {
			users = append(users, Describe(pid, point))
		}
	}
	sort.Strings(users)
	return users, nil
}

// mountKey is a mount as two namespaces can be compared by it.
type mountKey struct{ device, root, point string }

func (m Mount) key() mountKey { return mountKey{m.Device, m.Root, m.Point} }

// touches returns where the Place, a part or a parent of it is mounted. In a
// namespace that has the host's own root, the host's own mounts do not count
// unless they are of the place itself or of a part of it.
func touches(mounts []Mount, at Place, host map[mountKey]bool) (string, bool) {
	hosts := false
	for _, m := range mounts {
		hosts = hosts || m.Point == "/" && host[m.key()]
	}
	for _, m := range mounts {
		if m.Device != at.Device {
			continue
		}
		switch {
		case sandbox.Within(m.Root, at.Root):
			return m.Point, true
		case sandbox.Within(at.Root, m.Root) && !(hosts && host[m.key()]):
			return m.Point, true
		}
	}
	return "", false
}

// Processes are the numbers of all processes that /proc shows, sorted.
func Processes() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	sort.Ints(pids)
	return pids, nil
}

// Describe names a process and, by its cgroup, the container that it is in.
func Describe(pid int, point string) string {
	comm := "?"
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
		comm = strings.TrimSpace(string(b))
	}
	s := fmt.Sprintf("process %d (%s)", pid, comm)
	if group := cgroupOf(pid); group != "" {
		s += " in " + group
	}
	return s + " has it mounted at " + point
}

// cgroupOf is the longest cgroup path of a process, without what is not one
// container's.
func cgroupOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return ""
	}
	longest := ""
	for line := range strings.SplitSeq(string(b), "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) == 3 && len(f[2]) > len(longest) {
			longest = f[2]
		}
	}
	if longest == "/" {
		return ""
	}
	return longest
}
