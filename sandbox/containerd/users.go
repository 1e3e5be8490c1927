package containerd

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
)

// Users names every container of the daemon, of whatever namespace and whoever
// made it, that has the directory, a part of it or a parent of it mounted. One
// whose task has ended counts as no user; one without a task does, as it may
// start at once.
func (e *Engine) Users(ctx context.Context, hostDir string) ([]string, error) {
	if _, err := e.ask(ctx); err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(hostDir)
	if err != nil {
		return nil, fmt.Errorf("look for users of %q: %w", hostDir, err)
	}
	spaces, err := e.api.NamespaceService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for users of %q: %w", hostDir, err)
	}
	var users []string
	for _, space := range spaces {
		within := namespaces.WithNamespace(ctx, space)
		list, err := e.api.Containers(within)
		if err != nil {
			return nil, fmt.Errorf("look for users of %q: %w", hostDir, err)
		}
		for _, c := range list {
			uses, err := uses(within, c, dir)
			if err != nil {
				return nil, fmt.Errorf("look for users of %q: container %q: %w", hostDir, c.ID(), err)
			}
			if uses {
				users = append(users, "containerd container "+space+"/"+c.ID())
			}
		}
	}
	return users, nil
}

func uses(ctx context.Context, c client.Container, dir string) (bool, error) {
	record, err := c.Info(ctx)
	if errdefs.IsNotFound(err) {
		return false, nil // it went meanwhile
	}
	if err != nil {
		return false, err
	}
	var spec specs.Spec
	if err := json.Unmarshal(record.Spec.GetValue(), &spec); err != nil {
		return false, err
	}
	if !slices.ContainsFunc(sources(spec), func(source string) bool { return reaches(source, dir) }) {
		return false, nil
	}
	task, err := c.Task(ctx, nil)
	if errdefs.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	status, err := task.Status(ctx)
	if errdefs.IsNotFound(err) {
		return true, nil
	}
	return status.Status != client.Stopped, err
}

// sources are the host's directories that a configuration mounts.
func sources(spec specs.Spec) []string {
	var all []string
	if spec.Root != nil {
		all = append(all, spec.Root.Path)
	}
	for _, m := range spec.Mounts {
		all = append(all, m.Source)
		for _, opt := range m.Options {
			name, value, _ := strings.Cut(opt, "=")
			if name == "lowerdir" || name == "upperdir" {
				all = append(all, strings.Split(value, ":")...)
			}
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return !filepath.IsAbs(s) })
}

func reaches(source, dir string) bool {
	if resolved, err := filepath.EvalSymlinks(source); err == nil {
		source = resolved
	}
	return sandbox.Within(source, dir) || sandbox.Within(dir, source)
}
