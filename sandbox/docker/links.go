package docker

import (
	"context"
	"fmt"
	"os"
	"path"

	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
)

// linksInImage refuses an image that has a symbolic link on the way to a mount
// or to the working directory: the mount would land elsewhere than reported.
// Answers are remembered by the image's digest.
func (e *Engine) linksInImage(ctx context.Context, id string, spec sandbox.Spec, image client.ImageInspectResult) ([]string, error) {
	if spec.Image.Kind == sandbox.ImageSupervisor {
		return nil, nil // made here: it has none
	}
	seen := map[string]bool{}
	var problems []string
	targets := []string{spec.Dir, "/dev", "/proc", "/sys", "/etc"}
	for _, m := range spec.Mounts {
		targets = append(targets, m.Target)
	}
	for _, target := range targets {
		for p := path.Clean(target); p != "/" && p != "."; p = path.Dir(p) {
			if seen[p] {
				break
			}
			seen[p] = true
			link, err := e.linkInImage(ctx, id, image.ID, p)
			if err != nil {
				return nil, err
			}
			if link {
				problems = append(problems, fmt.Sprintf("the image makes %s, on the way to %s, a symbolic link", p, target))
			}
		}
	}
	return problems, nil
}

func (e *Engine) linkInImage(ctx context.Context, id, digest, path string) (bool, error) {
	key := digest + path
	e.mu.Lock()
	plain := e.plain[key]
	e.mu.Unlock()
	if plain {
		return false, nil
	}
	st, err := e.api.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: path})
	switch {
	case gone(err):
	case err != nil:
		return false, fmt.Errorf("look for links at %q: %w", path, err)
	case st.Stat.Mode&os.ModeSymlink != 0:
		return true, nil
	}
	e.mu.Lock()
	e.plain[key] = true
	e.mu.Unlock()
	return false, nil
}
