package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/layer"
)

// Users names every container of the daemon that has the directory, a part of
// it or a parent of it mounted, whoever made it. One that has ended counts as
// no user; one that was created and not started does, as it may start at once.
func (e *Engine) Users(ctx context.Context, hostDir string) ([]string, error) {
	if _, err := e.ask(ctx); err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(hostDir)
	if err != nil {
		return nil, fmt.Errorf("look for users of %q: %w", hostDir, err)
	}
	volumes, err := e.volumeSources(ctx)
	if err != nil {
		return nil, err
	}
	list, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return nil, fmt.Errorf("look for users of %q: %w", hostDir, err)
	}
	var users []string
	for _, c := range list.Items {
		if c.State == container.StateExited || c.State == container.StateDead {
			continue
		}
		if slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool { return reaches(m, volumes, dir) }) {
			users = append(users, "docker container "+displayName(c))
		}
	}
	return users, nil
}

func displayName(c container.Summary) string {
	if len(c.Names) > 0 {
		return strings.TrimPrefix(c.Names[0], "/")
	}
	return c.ID
}

func reaches(m container.MountPoint, volumes map[string][]string, dir string) bool {
	sources := volumes[m.Name]
	if m.Source != "" {
		sources = append(slices.Clone(sources), m.Source)
	}
	return slices.ContainsFunc(sources, func(source string) bool {
		if resolved, err := filepath.EvalSymlinks(source); err == nil {
			source = resolved
		}
		return sandbox.Within(source, dir) || sandbox.Within(dir, source)
	})
}

// volumeSources finds the host directories behind volumes that are binds or
// overlays: their mount shows the daemon's own directory only.
func (e *Engine) volumeSources(ctx context.Context) (map[string][]string, error) {
	list, err := e.api.VolumeList(ctx, client.VolumeListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	sources := map[string][]string{}
	for _, v := range list.Items {
		var found []string
		if filepath.IsAbs(v.Options["device"]) {
			found = append(found, v.Options["device"])
		}
		for _, opt := range strings.Split(v.Options["o"], ",") {
			name, value, _ := strings.Cut(opt, "=")
			if name == "lowerdir" || name == "upperdir" {
				found = append(found, strings.Split(value, ":")...)
			}
		}
		if len(found) > 0 {
			sources[v.Name] = found
		}
	}
	return sources, nil
}

// Sweep removes every container and layer of the session. Parts stay: they
// hold the session's record.
func (e *Engine) Sweep(ctx context.Context, session string) ([]string, error) {
	if !sandbox.ValidSession(session) {
		return nil, fmt.Errorf("sweep: %q is not a session id", session)
	}
	if _, err := e.ask(ctx); err != nil {
		return nil, err
	}
	ours := make(client.Filters).Add("label", labelSession+"="+session, labelPlace+"="+e.cfg.Place)
	list, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	if err != nil {
		return nil, fmt.Errorf("sweep session %q: %w", session, err)
	}
	var removed []string
	var errs []error
	for _, c := range list.Items {
		if err := e.removeContainer(ctx, c.ID); err != nil {
			errs = append(errs, fmt.Errorf("sweep container %q: %w", displayName(c), err))
			continue
		}
		removed = append(removed, displayName(c))
	}
	errs = append(errs, e.sweepLayers(ctx, session))
	return removed, errors.Join(errs...)
}

func (e *Engine) sweepLayers(ctx context.Context, session string) error {
	if e.cfg.LayerDir == "" {
		return nil // none can have been made
	}
	dir := filepath.Join(e.cfg.LayerDir, session)
	names := map[string]bool{}
	ours := make(client.Filters).Add("label", labelSession+"="+session, labelPlace+"="+e.cfg.Place, labelKind+"="+kindLayer)
	list, err := e.api.VolumeList(ctx, client.VolumeListOptions{Filters: ours})
	if err != nil {
		return fmt.Errorf("sweep session %q: %w", session, err)
	}
	for _, v := range list.Items {
		names[v.Name] = true
	}
	// A launcher that was killed early has left a directory without its volume.
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("sweep session %q: %w", session, err)
	}
	for _, entry := range entries {
		names[entry.Name()] = true
	}
	var errs []error
	for name := range names {
		errs = append(errs, e.dropLayers(ctx, []overlay{{volume: name, Layer: layer.Layer{Dir: filepath.Join(dir, name)}}}))
	}
	return errors.Join(errs...)
}

var _ sandbox.Engine = (*Engine)(nil)
