package ocispec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/kernel"
)

// Table is what is known of a container's mounts before they are read.
type Table struct {
	Spec sandbox.Spec
	Host []kernel.Mount // the launcher's own view
	// Own reports whether a mount that the spec does not name is one of the
	// engine's, and what it must be.
	Own func(kernel.Mount) bool
	// Lower is the lower side of a layer, as its overlay's options name it, and
	// the directory that is behind that name.
	Lower func(target string) (name, source string)
}

// Read reports the mounts of the made container that the spec asked for, and
// names as problems every mount that neither the spec nor the engine accounts
// for.
func (t Table) Read(inside []kernel.Mount, r *sandbox.Report) []string {
	var problems []string
	wanted := map[string]sandbox.Mount{}
	for _, m := range t.Spec.Mounts {
		wanted[m.Target] = m
	}
	for _, m := range inside {
		switch {
		case m.Point == "/":
			r.ReadOnlyRoot = m.Has("ro")
		case wanted[m.Point].Kind != "":
			if wanted[m.Point].NoExec && !m.Has("noexec") {
				problems = append(problems, fmt.Sprintf("the mount at %q is not noexec", m.Point))
			}
			r.Mounts = append(r.Mounts, t.Made(wanted[m.Point], m))
		case isDevice(m):
			r.Devices = append(r.Devices, m.Point)
		case t.Own(m):
		case strictlyBelow(m, t.Spec.Mounts):
			// A submount of a bind; as strict as the bind or a problem.
			problems = append(problems, submountProblems(m, t.Spec.Mounts)...)
		default:
			problems = append(problems, fmt.Sprintf("a mount that nobody asked for: %s (%s from %s)", m.Point, m.FSType, m.Root))
		}
	}
	problems = append(problems, shownPaths(inside)...)
	r.Devices = slices.DeleteFunc(r.Devices, PlainDevice)
	return problems
}

// Kernel reports whether a mount is one of KernelMounts, or a mask or a
// read-only remount within /proc, and what that must be: the container's own
// /proc, an empty file system, or /dev/null.
func Kernel(m kernel.Mount) bool {
	known := map[string]string{"/proc": "proc", "/dev": "tmpfs", "/dev/pts": "devpts", "/dev/shm": "tmpfs"}
	if t, ok := known[m.Point]; ok {
		return m.FSType == t
	}
	if slices.Contains(MaskedPaths(), m.Point) {
		return m.FSType == "tmpfs" && m.Has("ro") || m.Root == "/null"
	}
	return slices.Contains(ReadonlyPaths(), m.Point) && m.FSType == "proc" && m.Has("ro")
}

// shownPaths names what should be masked or read-only, is in this kernel's
// /proc, and has nothing mounted over it. What is mounted there, Table.Own has
// judged.
func shownPaths(inside []kernel.Mount) []string {
	covered := map[string]bool{}
	for _, m := range inside {
		covered[m.Point] = true
	}
	var problems []string
	for _, p := range append(MaskedPaths(), ReadonlyPaths()...) {
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

// PlainDevice reports whether a path is one of them.
func PlainDevice(path string) bool { return slices.Contains(plainDevices(), path) }

func isDevice(m kernel.Mount) bool {
	return strings.HasPrefix(m.Point, "/dev/") && m.FSType != "tmpfs" && m.Point != "/dev/pts" && m.Point != "/dev/mqueue"
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

// Made says what a mount of the spec became. Its source is the asked
// path only if that path leads to the very same place in the same file system.
func (t Table) Made(w sandbox.Mount, m kernel.Mount) sandbox.MountReport {
	r := sandbox.MountReport{
		Target: m.Point, Writable: !m.Has("ro"), NoSuid: m.Has("nosuid"), NoDev: m.Has("nodev"),
	}
	switch m.FSType {
	case "overlay":
		r.Kind = sandbox.MountLayer
		if name, source := t.Lower(m.Point); source != "" && slices.Contains(m.Super, "lowerdir="+name) {
			r.Source = source
			if real, err := filepath.EvalSymlinks(w.Source); err == nil && real == source {
				r.Source = w.Source
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
		if p, ok := kernel.PlaceOf(t.Host, real); ok && p == at {
			r.Source = w.Source
			return r
		}
	}
	r.Source = kernel.PathOf(t.Host, at)
	return r
}
