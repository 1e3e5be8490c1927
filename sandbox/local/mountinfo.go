package local

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
)

// mountLine is one line of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
type mountLine struct {
	device  string // major:minor
	root    string // the mounted directory within its file system
	point   string // where, seen from the process's root
	options []string
	fsType  string
	source  string
	super   []string
}

func (m mountLine) has(option string) bool {
	for _, o := range m.options {
		if o == option {
			return true
		}
	}
	return false
}

// maxMountinfo bounds what is read of one process, in bytes. A process may have
// 100,000 mounts (fs.mount-max).
const maxMountinfo = 64 << 20

func parseMountinfo(r io.Reader) ([]mountLine, error) {
	var all []mountLine
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

func parseMountLine(line string) (mountLine, error) {
	f := strings.Split(line, " ")
	dash := -1
	for i := 6; i < len(f); i++ {
		if f[i] == "-" {
			dash = i
			break
		}
	}
	if dash < 0 || len(f) < dash+3 {
		return mountLine{}, fmt.Errorf("mountinfo line %.200q is malformed", line)
	}
	m := mountLine{
		device:  f[2],
		root:    unescapeMount(f[3]),
		point:   unescapeMount(f[4]),
		options: strings.Split(f[5], ","),
		fsType:  f[dash+1],
		source:  unescapeMount(f[dash+2]),
	}
	if len(f) > dash+3 {
		m.super = strings.Split(f[dash+3], ",")
	}
	return m, nil
}

// unescapeMount undoes the kernel's octal escapes of space, tab, newline and
// backslash.
func unescapeMount(s string) string {
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

// place is a directory as the kernel knows it, whatever path leads there.
type place struct {
	device string
	root   string
}

// placeOf finds the mount that a resolved path lies in and the path within its
// file system. Of mounts at one point the last one is on top.
func placeOf(mounts []mountLine, path string) (place, bool) {
	best := -1
	for i, m := range mounts {
		if within(path, m.point) && (best < 0 || len(m.point) >= len(mounts[best].point)) {
			best = i
		}
	}
	if best < 0 {
		return place{}, false
	}
	rel := strings.TrimPrefix(path, strings.TrimSuffix(mounts[best].point, "/"))
	return place{mounts[best].device, filepath.Join(mounts[best].root, rel)}, true
}

// pathOf is a path, in the mount table, that leads to the place, or "".
func pathOf(mounts []mountLine, p place) string {
	best := -1
	for i, m := range mounts {
		if m.device == p.device && within(p.root, m.root) && (best < 0 || len(m.root) > len(mounts[best].root)) {
			best = i
		}
	}
	if best < 0 {
		return ""
	}
	rel := strings.TrimPrefix(p.root, strings.TrimSuffix(mounts[best].root, "/"))
	return filepath.Join(mounts[best].point, rel)
}

// within reports whether path is dir or lies below it; both are clean.
func within(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}
