package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
)

// readMounts reports the container's mounts that the spec asked for, and names
// as problems every mount that neither the spec nor the engine's own table
// accounts for.
func readMounts(b *bundle, pid int, r *sandbox.Report) ([]string, error) {
	inside, err := mountsOf(pid)
	if err != nil {
		return nil, err
	}
	host, err := mountsOf(os.Getpid())
	if err != nil {
		return nil, err
	}
	var problems []string
	wanted := map[string]sandbox.Mount{}
	for _, m := range b.spec.Mounts {
		wanted[m.Target] = m
	}
	own := b.ownMounts()
	for _, m := range inside {
		switch {
		case m.point == "/":
			r.ReadOnlyRoot = m.has("ro")
		case wanted[m.point].Kind != "":
			if wanted[m.point].NoExec && !m.has("noexec") {
				problems = append(problems, fmt.Sprintf("the mount at %q is not noexec", m.point))
			}
			r.Mounts = append(r.Mounts, reportMount(wanted[m.point], b, m, host))
		case isDevice(m):
			r.Devices = append(r.Devices, m.point)
		case own(m):
		case strictlyBelow(m, b.spec.Mounts):
			// A submount of a bind; as strict as the bind or a problem.
			problems = append(problems, submountProblems(m, b.spec.Mounts)...)
		default:
			problems = append(problems, fmt.Sprintf("a mount that nobody asked for: %s (%s from %s)", m.point, m.fsType, m.root))
		}
	}
	problems = append(problems, shownPaths(inside)...)
	r.Devices = slices.DeleteFunc(r.Devices, func(d string) bool { return slices.Contains(plainDevices(), d) })
	return problems, nil
}

// shownPaths names what should be masked or read-only, is in this kernel's
// /proc, and has nothing mounted over it. What is mounted there, ownMounts has
// judged.
func shownPaths(inside []mountLine) []string {
	covered := map[string]bool{}
	for _, m := range inside {
		covered[m.point] = true
	}
	var problems []string
	for _, p := range append(maskedPaths(), readonlyPaths()...) {
		if _, err := os.Lstat(p); err == nil && !covered[p] {
			problems = append(problems, p+" is not masked or read-only")
		}
	}
	return problems
}

func mountsOf(pid int) ([]mountLine, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseMountinfo(f)
}

// plainDevices are those that every runtime gives (runtime-spec, "Default
// Devices"), and that are not worth a word.
func plainDevices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console"}
}

func isDevice(m mountLine) bool {
	return strings.HasPrefix(m.point, "/dev/") && m.fsType != "tmpfs" && m.point != "/dev/pts" && m.point != "/dev/mqueue"
}

// ownMounts is the engine's own table: what config.json has besides the spec's
// mounts, each of which must be what it is there.
func (b *bundle) ownMounts() func(mountLine) bool {
	kernel := map[string]string{"/proc": "proc", "/dev": "tmpfs", "/dev/pts": "devpts", "/dev/shm": "tmpfs"}
	image := map[string]bool{}
	for _, m := range b.config.Mounts {
		if m.Type == "bind" && slices.Contains(m.Options, "ro") {
			image[m.Destination] = true
		}
	}
	return func(m mountLine) bool {
		if t, ok := kernel[m.point]; ok {
			return m.fsType == t
		}
		for p := range image {
			if within(m.point, p) {
				return m.has("ro") && m.has("nosuid") && m.has("nodev")
			}
		}
		for _, l := range b.layers {
			if m.point == l.dir+"/mem" {
				return m.fsType == "tmpfs"
			}
		}
		// Masks and read-only remounts within /proc: the container's own /proc,
		// an empty file system, or /dev/null.
		if slices.Contains(maskedPaths(), m.point) {
			return m.fsType == "tmpfs" && m.has("ro") || m.root == "/null"
		}
		return slices.Contains(readonlyPaths(), m.point) && m.fsType == "proc" && m.has("ro")
	}
}

func strictlyBelow(m mountLine, mounts []sandbox.Mount) bool {
	for _, w := range mounts {
		if w.Kind == sandbox.MountBind && m.point != w.Target && within(m.point, w.Target) {
			return true
		}
	}
	return false
}

func submountProblems(m mountLine, mounts []sandbox.Mount) []string {
	var problems []string
	for _, w := range mounts {
		if !within(m.point, w.Target) {
			continue
		}
		if w.Writable {
			// What is writable is the stage and the supervisor's own parts; the
			// launcher makes them, and nothing is mounted in them.
			problems = append(problems, fmt.Sprintf("a submount in the writable mount %s: %s", w.Target, m.point))
		} else if !m.has("ro") {
			problems = append(problems, fmt.Sprintf("submount %s of the read-only mount %s is writable", m.point, w.Target))
		}
		if !m.has("nosuid") || !m.has("nodev") {
			problems = append(problems, fmt.Sprintf("submount %s of the mount %s is not nosuid and nodev", m.point, w.Target))
		}
	}
	return problems
}

// reportMount says what a mount of the spec became. Its source is the asked
// path only if that path leads to the very same place in the same file system.
func reportMount(w sandbox.Mount, b *bundle, m mountLine, host []mountLine) sandbox.MountReport {
	r := sandbox.MountReport{
		Target: m.point, Writable: !m.has("ro"), NoSuid: m.has("nosuid"), NoDev: m.has("nodev"),
	}
	switch m.fsType {
	case "overlay":
		r.Kind = sandbox.MountLayer
		for _, l := range b.layers {
			if l.target == m.point && slices.Contains(m.super, "lowerdir="+filepath.Join(b.rootfs(), l.dir, "lower")) {
				r.Source = l.source
				if real, err := filepath.EvalSymlinks(w.Source); err == nil && real == l.source {
					r.Source = w.Source
				}
			}
		}
		if r.Source != "" {
			return r
		}
	case "tmpfs":
		if w.Kind == sandbox.MountTmpfs && m.root == "/" {
			r.Kind = sandbox.MountTmpfs
			return r
		}
	}
	r.Kind = sandbox.MountBind
	at := place{m.device, m.root}
	if real, err := filepath.EvalSymlinks(w.Source); err == nil {
		if p, ok := placeOf(host, real); ok && p == at {
			r.Source = w.Source
			return r
		}
	}
	r.Source = pathOf(host, at)
	return r
}
