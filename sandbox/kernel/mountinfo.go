package kernel

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
)

// Mount is one line of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
type Mount struct {
	Device  string // major:minor
	Root    string // the mounted directory within its file system
	Point   string // where, seen from the process's root
	Options []string
	FSType  string
	Source  string
	Super   []string
}

// Has reports whether the mount has one of its own options.
func (m Mount) Has(option string) bool {
	for _, o := range m.Options {
		if o == option {
			return true
		}
	}
	return false
}

// maxMountinfo bounds what is read of one process, in bytes. A process may have
// 100,000 mounts (fs.mount-max).
const maxMountinfo = 64 << 20

// ParseMountinfo reads a process's mount table.
func ParseMountinfo(r io.Reader) ([]Mount, error) {
	var all []Mount
	sc := bufio.NewScanner(io.LimitReader(r, maxMountinfo))
	sc.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for sc.Scan() {
		m, err := parseMountLine(sc.Text())
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, sc.Err()
}

func parseMountLine(line string) (Mount, error) {
	f := strings.Split(line, " ")
	dash := -1
	for i := 6; i < len(f); i++ {
		if f[i] == "-" {
			dash = i
			break
		}
	}
	if dash < 0 || len(f) < dash+3 {
		return Mount{}, fmt.Errorf("mountinfo line %.200q is malformed", line)
	}
	m := Mount{
		Device:  f[2],
		Root:    unescape(f[3]),
		Point:   unescape(f[4]),
		Options: strings.Split(f[5], ","),
		FSType:  f[dash+1],
		Source:  unescape(f[dash+2]),
	}
	if len(f) > dash+3 {
		m.Super = strings.Split(f[dash+3], ",")
	}
	return m, nil
}

// unescape undoes the kernel's octal escapes of space, tab, newline and
// backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Place is a directory as the kernel knows it, whatever path leads there.
type Place struct {
	Device string
	Root   string
}

// Place is what the mount shows.
func (m Mount) Place() Place { return Place{m.Device, m.Root} }

// PlaceOf finds the mount that a resolved path lies in and the path within its
// file system. Of mounts at one point the last one is on top.
func PlaceOf(mounts []Mount, path string) (Place, bool) {
	best := -1
	for i, m := range mounts {
		if sandbox.Within(path, m.Point) && (best < 0 || len(m.Point) >= len(mounts[best].Point)) {
			best = i
		}
	}
	if best < 0 {
		return Place{}, false
	}
	rel := strings.TrimPrefix(path, strings.TrimSuffix(mounts[best].Point, "/"))
	return Place{mounts[best].Device, filepath.Join(mounts[best].Root, rel)}, true
}

// PathOf is a path, in the mount table, that leads to the place, or "".
func PathOf(mounts []Mount, p Place) string {
	best := -1
	for i, m := range mounts {
		if m.Device == p.Device && sandbox.Within(p.Root, m.Root) && (best < 0 || len(m.Root) > len(mounts[best].Root)) {
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	rel := strings.TrimPrefix(p.Root, strings.TrimSuffix(mounts[best].Root, "/"))
	return filepath.Join(mounts[best].Point, rel)
}

// Mounts is the mount table of a process.
func Mounts(pid int) ([]Mount, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return ParseMountinfo(f)
}

// Below are the mount points that lie below a directory.
func Below(mounts []Mount, dir string) []string {
	var found []string
	for _, m := range mounts {
		if m.Point != dir && sandbox.Within(m.Point, dir) {
			found = append(found, m.Point)
		}
	}
	return found
}
