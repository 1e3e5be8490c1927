package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Source is a host path that the policy wants inside a container.
type Source struct {
	Field string // as in agent.mounts[0].source
	Path  string
}

// Sources lists every host path that the policy names: the agent's mounts, the
// checks' files, root file systems. None has been looked at.
func (p *Policy) Sources() []Source {
	var all []Source
	image := func(at string, img Image) {
		// A check that took the agent's image names no path of its own.
		if img.Kind == ImageRootfs && p.lines[at+".image.ref"] > 0 {
			all = append(all, Source{at + ".image.ref", img.Ref})
		}
	}
	image("agent", p.Agent.Image)
	for i, m := range p.Agent.Mounts {
		all = append(all, Source{fmt.Sprintf("agent.mounts[%d].source", i), m.Source})
	}
	for i, c := range p.Checks {
		at := fmt.Sprintf("checks[%d]", i)
		image(at, c.Image)
		for j, f := range c.Files {
			all = append(all, Source{fmt.Sprintf("%s.files[%d].from", at, j), f.From})
		}
	}
	return all
}

// FileID is a file's identity on the running host.
type FileID struct{ Dev, Ino uint64 }

// Location is where a path leads.
type Location struct {
	Path    string   // resolved: absolute, no symbolic link in it
	IDs     []FileID // of the path, its parent, and so on up to the root
	Socket  bool     // the path is a Unix socket
	Sockets []string // names of the Unix sockets directly in the directory
}

// Locate resolves a path that exists. It opens nothing but directories, and
// answers for the moment of the call: whoever can rename what lies on the way
// can change the answer.
func Locate(path string) (Location, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Location{}, fmt.Errorf("resolve path: %w", err)
	}
	if !filepath.IsAbs(resolved) {
		return Location{}, fmt.Errorf("resolve path %q: not absolute", path)
	}
	loc := Location{Path: resolved}
	for at := resolved; ; at = filepath.Dir(at) {
		var st unix.Stat_t
		if err := unix.Lstat(at, &st); err != nil {
			return Location{}, fmt.Errorf("look at %q: %w", at, err)
		}
		loc.IDs = append(loc.IDs, FileID{st.Dev, st.Ino})
		if at == resolved {
			loc.Socket = st.Mode&unix.S_IFMT == unix.S_IFSOCK
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				if loc.Sockets, err = sockets(resolved); err != nil {
					return Location{}, err
				}
			}
		}
		if at == "/" {
			return loc, nil
		}
	}
}

func sockets(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list directory %q: %w", dir, err)
	}
	var names []string
	for _, e := range entries {
		if e.Type()&os.ModeSocket != 0 {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Place is something of the host that no container of a session may reach.
type Place struct {
	What     string // for the message: "the engine's socket", "control", "keys", "the product"
	Location Location
}

// RefuseSources judges the policy's host paths against the places: the launcher
// names the engine's socket and data root, control, keys, the product, and
// whatever else it guards. A path that is a place, contains one or lies under
// one is refused, by its resolved name and by the identities of its parents, so
// that neither a symbolic link nor a second mount of the same directory helps.
// The host's root, /proc, /sys, /dev and /run, Unix sockets and directories with
// a Unix socket in them are refused always. locate is Locate, or a fake.
//
// A path that does not exist is refused too. The error is an *Error.
func (p *Policy) RefuseSources(locate func(path string) (Location, error), places []Place) error {
	var problems []Problem
	for _, s := range p.Sources() {
		loc, err := locate(s.Path)
		if err != nil {
			problems = append(problems, p.problem(s, err.Error()))
			continue
		}
		if reason := refusal(loc, places); reason != "" {
			problems = append(problems, p.problem(s, fmt.Sprintf("%q %s", s.Path, reason)))
		}
	}
	if len(problems) > 0 {
		return &Error{File: p.name, Problems: problems}
	}
	return nil
}

func (p *Policy) problem(s Source, message string) Problem {
	return Problem{Line: p.lines[s.Field], Field: s.Field, Message: message}
}

// refusal says why a location may not be mounted, or "".
func refusal(loc Location, places []Place) string {
	for _, pl := range places {
		switch {
		case same(loc, pl.Location):
			return "is " + pl.What
		case within(pl.Location, loc):
			return fmt.Sprintf("holds %s (%q)", pl.What, pl.Location.Path)
		case within(loc, pl.Location):
			return fmt.Sprintf("lies in %s (%q)", pl.What, pl.Location.Path)
		}
	}
	switch {
	case loc.Path == "/" || len(loc.IDs) == 1:
		return "is the host's root"
	case loc.Socket:
		return "is a Unix socket"
	case len(loc.Sockets) > 0:
		return fmt.Sprintf("holds the Unix socket %q", loc.Sockets[0])
	}
	for _, own := range [...]string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
		if overlaps(loc.Path, own) {
			return fmt.Sprintf("is, holds or lies in the host's %s", strings.TrimPrefix(own, "/"))
		}
	}
	return ""
}

func same(a, b Location) bool {
	return a.Path == b.Path || len(a.IDs) > 0 && len(b.IDs) > 0 && a.IDs[0] == b.IDs[0]
}

// within reports whether a is b or lies under it.
func within(a, b Location) bool {
	return under(a.Path, b.Path) || len(b.IDs) > 0 && slices.Contains(a.IDs, b.IDs[0])
}
