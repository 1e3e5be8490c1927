package docker

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
)

// source resolves a bind's or layer's source; the engine's own places and the
// installation's are closed.
func (e *Engine) source(d *daemon, path string) (string, error) {
	closed := []string{"/var/lib/docker", "/var/lib/containerd", e.socket}
	if d.info.DockerRootDir != "" {
		closed = append(closed, d.info.DockerRootDir)
	}
	if e.cfg.LayerDir != "" {
		closed = append(closed, e.cfg.LayerDir)
	}
	return sandbox.ResolveSource(path, append(closed, e.cfg.Protected...)...)
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
		if point := unescapeMount(fields[4]); point != dir && sandbox.Within(point, dir) {
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
