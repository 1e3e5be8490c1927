package docker

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// forbiddenTrees may not be a mount's source, nor may anything below them.
func forbiddenTrees() []string { return []string{"/proc", "/sys", "/dev", "/boot"} }

// forbiddenPlaces may not be a mount's source, nor may anything above them: who
// holds one of them holds the host.
func forbiddenPlaces() []string {
	return []string{
		"/", "/etc", "/run", "/var/run", "/var/lib/docker", "/var/lib/containerd", "/var/lib/containers",
		"/run/docker.sock", "/run/containerd", "/run/podman", "/run/crio", "/run/buildkit", "/run/systemd", "/run/dbus",
		"/var/lib/kubelet", "/root/.ssh",
	}
}

// source resolves a bind's or layer's source and refuses one that would give a
// container more than a part of somebody's files.
func (e *Engine) source(d *daemon, path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("mount source %q is not absolute", path)
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("mount source %q: %w", path, err)
	}
	st, err := os.Lstat(resolved)
	if err != nil {
		return "", fmt.Errorf("mount source %q: %w", path, err)
	}
	if !st.IsDir() && !st.Mode().IsRegular() {
		return "", fmt.Errorf("mount source %q is a %s, and must be a directory or a regular file", path, kindOfFile(st.Mode()))
	}
	for _, tree := range forbiddenTrees() {
		if within(resolved, tree) {
			return "", fmt.Errorf("mount source %q lies under %s", path, tree)
		}
	}
	for _, place := range append(forbiddenPlaces(), e.socket, d.info.DockerRootDir) {
		if place != "" && within(realPath(place), resolved) {
			return "", fmt.Errorf("mount source %q is or holds %s, which belongs to the host or to an engine", path, place)
		}
	}
	for _, place := range append([]string{d.info.DockerRootDir, "/var/lib/docker", "/var/lib/containerd"}, e.cfg.Protected...) {
		if place == "" {
			continue
		}
		if place = realPath(place); within(resolved, place) || within(place, resolved) {
			return "", fmt.Errorf("mount source %q is, holds or lies under %s", path, place)
		}
	}
	return resolved, nil
}

func kindOfFile(m os.FileMode) string {
	switch {
	case m&os.ModeSocket != 0:
		return "socket"
	case m&os.ModeNamedPipe != 0:
		return "FIFO"
	case m&os.ModeDevice != 0:
		return "device"
	default:
		return "special file"
	}
}

// realPath resolves as much of a path as exists.
func realPath(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	if path == "/" || path == "." {
		return path
	}
	return filepath.Join(realPath(filepath.Dir(path)), filepath.Base(path))
}

// within reports whether path is dir or lies below it. Both are clean.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// submounts returns the mount points of the launcher's own view that lie below dir.
func submounts(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer func() { _ = f.Close() }()
	var found []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if point := unescapeMount(fields[4]); point != dir && within(point, dir) {
			found = append(found, point)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return found, nil
}

// unescapeMount undoes the octal escapes of proc(5) mountinfo.
func unescapeMount(s string) string {
	if !strings.ContainsRune(s, '\\') {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#").Replace(s)
}
