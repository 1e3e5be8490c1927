package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/kernel"
)

// readMounts reports the container's mounts that the spec asked for, and names
// as problems every mount that neither the spec nor the engine's own table
// accounts for.
func readMounts(b *bundle, pid int, r *sandbox.Report) ([]string, error) {
	inside, err := kernel.Mounts(pid)
	if err != nil {
		return nil, err
	}
	host, err := kernel.Mounts(os.Getpid())
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
		case m.Point == "/":
			r.ReadOnlyRoot = m.Has("ro")
		case wanted[m.Point].Kind != "":
			if wanted[m.Point].NoExec && !m.Has("noexec") {
				problems = append(problems, fmt.Sprintf("the mount at %q is not noexec", m.Point))
			}
			r.Mounts = append(r.Mounts, reportMount(wanted[m.Point], b, m, host))
		case isDevice(m):
			r.Devices = append(r.Devices, m.Point)
		case own(m):
		case strictlyBelow(m, b.spec.Mounts):
			// A submount of a bind; as strict as the bind or a problem.
			problems = append(problems, submountProblems(m, b.spec.Mounts)...)
		default:
			problems = append(problems, fmt.Sprintf("a mount that nobody asked for: %s (%s from %s)", m.Point, m.FSType, m.Root))
		}
	}
	problems = append(problems, shownPaths(inside)...)
	r.Devices = slices.DeleteFunc(r.Devices, func(d string) bool { return slices.Contains(plainDevices(), d) })
	return problems, nil
}

// shownPaths names what should be masked or read-only, is in this kernel's
// /proc, and has nothing mounted over it. What is mounted there, ownMounts has
// judged.
func shownPaths(inside []kernel.Mount) []string {
	covered := map[string]bool{}
	for _, m := range inside {
		covered[m.Point] = true
	}
	var problems []string
	for _, p := range append(maskedPaths(), readonlyPaths()...) {
		if _, err := os.Lstat(p); err == nil && !covered[p] {
			problems = append(problems, p+" is not masked or read-only")
		}
	}
	return problems
}

// plainDevices are those that every runtime gives (runtime-spec, "Default
// Devices"), and that are not worth a word.
func plainDevices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console"}
}

func isDevice(m kernel.Mount) bool {
	return strings.HasPrefix(m.Point, "/dev/") && m.FSType != "tmpfs" && m.Point != "/dev/pts" && m.Point != "/dev/mqueue"
}

// ownMounts is the engine's own table: what config.json has besides the spec's
// mounts, each of which must be what it is there.
func (b *bundle) ownMounts() func(kernel.Mount) bool {
	known := map[string]string{"/proc": "proc", "/dev": "tmpfs", "/dev/pts": "devpts", "/dev/shm": "tmpfs"}
	image := map[string]bool{}
	for _, m := range b.config.Mounts {
		if m.Type == "bind" && slices.Contains(m.Options, "ro") {
			image[m.Destination] = true
		}
	}
	return func(m kernel.Mount) bool {
		if t, ok := known[m.Point]; ok {
			return m.FSType == t
		}
		for p := range image {
			if sandbox.Within(m.Point, p) {
				return m.Has("ro") && m.Has("nosuid") && m.Has("nodev")
			}
		}
		for _, l := range b.layers {
			if m.Point == l.dir+"/mem" {
				return m.FSType == "tmpfs"
			}
		}
		// Masks and read-only remounts within /proc: the container's own /proc,
		// an empty file system, or /dev/null.
		if slices.Contains(maskedPaths(), m.Point) {
			return m.FSType == "tmpfs" && m.Has("ro") || m.Root == "/null"
		}
		return slices.Contains(readonlyPaths(), m.Point) && m.FSType == "proc" && m.Has("ro")
	}
}

func strictlyBelow(m kernel.Mount, mounts []sandbox.Mount) bool {
	for _, w := range mounts {
		if w.Kind == sandbox.MountBind && m.Point != w.Target && sandbox.Within(m.Point, w.Target) {
			return true
		}
	}
	return false
}

func submountProblems(m kernel.Mount, mounts []sandbox.Mount) []string {
	var problems []string
	for _, w := range mounts {
		if !sandbox.Within(m.Point, w.Target) {
			continue
		}
		if w.Writable {
			// What is writable is the stage and the supervisor's own parts; the
			// launcher makes them, and nothing is mounted in them.
			problems = append(problems, fmt.Sprintf("a submount in the writable mount %s: %s", w.Target, m.Point))
		} else if !m.Has("ro") {
			problems = append(problems, fmt.Sprintf("submount %s of the read-only mount %s is writable", m.Point, w.Target))
		}
		if !m.Has("nosuid") || !m.Has("nodev") {
			problems = append(problems, fmt.Sprintf("submount %s of the mount %s is not nosuid and nodev", m.Point, w.Target))
		}
	}
	return problems
}

// reportMount says what a mount of the spec became. Its source is the asked
// path only if that path leads to the very same place in the same file system.
func reportMount(w sandbox.Mount, b *bundle, m kernel.Mount, host []kernel.Mount) sandbox.MountReport {
	r := sandbox.MountReport{
		Target: m.Point, Writable: !m.Has("ro"), NoSuid: m.Has("nosuid"), NoDev: m.Has("nodev"),
	}
	switch m.FSType {
	case "overlay":
		r.Kind = sandbox.MountLayer
		for _, l := range b.layers {
			if l.target == m.Point && slices.Contains(m.Super, "lowerdir="+filepath.Join(b.rootfs(), l.dir, "lower")) {
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
		if w.Kind == sandbox.MountTmpfs && m.Root == "/" {
			r.Kind = sandbox.MountTmpfs
			return r
		}
	}
	r.Kind = sandbox.MountBind
	at := m.Place()
	if real, err := filepath.EvalSymlinks(w.Source); err == nil {
		if p, ok := kernel.PlaceOf(host, real); ok && p == at {
			r.Source = w.Source
			return r
		}
	}
	r.Source = kernel.PathOf(host, at)
	return r
}
