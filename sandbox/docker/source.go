package docker

import (
	"fmt"
	"os"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/kernel"
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
	mounts, err := kernel.Mounts(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return kernel.Below(mounts, dir), nil
}
