package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// kernelTrees may not be a mount's source, nor may anything below them.
func kernelTrees() []string { return []string{"/proc", "/sys", "/dev", "/boot"} }

// hostPlaces may not be a mount's source, nor may anything that holds them: who
// has one of them has the host, an engine, or everybody's processes.
func hostPlaces() []string {
	return []string{
		"/", "/etc", "/run", "/var/run", "/run/docker.sock", "/run/containerd", "/run/podman", "/run/crio", "/run/buildkit",
		"/run/systemd", "/run/dbus", "/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet", "/root/.ssh",
	}
}

// ResolveSource resolves a bind's or layer's source and refuses one that would
// give a container more than a part of somebody's files: the host or the
// kernel, an engine's socket or what holds it, and anything that is neither a
// directory nor a regular file. closed are further directories that the source
// may not be, hold or lie under: keys, control, the engine's data, the product's
// original.
//
// The answer holds as long as nobody renames the directories above it: give the
// resolved path to the engine, and keep it below directories that only the
// launcher writes.
func ResolveSource(path string, closed ...string) (string, error) {
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
	for _, tree := range kernelTrees() {
		if Within(resolved, tree) {
			return "", fmt.Errorf("mount source %q lies under %s", path, tree)
		}
	}
	for _, place := range hostPlaces() {
		if Within(realPath(place), resolved) {
			return "", fmt.Errorf("mount source %q is or holds %s, which belongs to the host or to an engine", path, place)
		}
	}
	for _, place := range closed {
		if real := realPath(place); Within(resolved, real) || Within(real, resolved) {
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

// realPath resolves as much of an absolute path as exists.
func realPath(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	if path == "/" || path == "." {
		return path
	}
	return filepath.Join(realPath(filepath.Dir(path)), filepath.Base(path))
}

// Within reports whether a clean path is the directory or lies below it. It
// compares text: resolve links first.
func Within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
