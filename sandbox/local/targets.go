package local

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/ocispec"
)

// prepareMounts makes a place in the image for each of the spec's mounts and
// returns them, a parent before what lies in it, after the kernel's own.
func (e *Engine) prepareMounts(b *bundle, root *node) ([]specs.Mount, error) {
	wanted := append([]sandbox.Mount(nil), b.spec.Mounts...)
	sort.SliceStable(wanted, func(i, j int) bool {
		return strings.Count(wanted[i].Target, "/") < strings.Count(wanted[j].Target, "/")
	})
	mounts := ocispec.KernelMounts()
	for i := range wanted {
		m := &wanted[i]
		dir := true
		if m.Kind == sandbox.MountBind || m.Kind == sandbox.MountLayer {
			source, err := e.resolveSource(*m)
			if err != nil {
				return nil, err
			}
			st, err := os.Stat(source)
			if err != nil {
				return nil, err
			}
			m.Source, dir = source, st.IsDir()
		}
		if err := placeTarget(root, wanted[:i], m.Target, dir); err != nil {
			return nil, err
		}
		made, err := b.mount(root, *m)
		if err != nil {
			return nil, fmt.Errorf("mount at %q: %w", m.Target, err)
		}
		mounts = append(mounts, made...)
	}
	if err := placeDir(root, wanted, b.spec.Dir); err != nil {
		return nil, fmt.Errorf("working directory %q: %w", b.spec.Dir, err)
	}
	return mounts, nil
}

// resolveSource refuses what no container may have. Of keys and control each
// part may be mounted at its own target, which Validate gives to few roles.
func (e *Engine) resolveSource(m sandbox.Mount) (string, error) {
	if e.parts.Is(m) {
		return sandbox.ResolveSource(m.Source, e.cfg.State)
	}
	return sandbox.ResolveSource(m.Source, append(e.parts.Closed(), e.cfg.State)...)
}

// cover is the last of the mounts that hides the path, and the path within it.
func cover(mounts []sandbox.Mount, path string) (m sandbox.Mount, rel string, ok bool) {
	for i := len(mounts) - 1; i >= 0; i-- {
		if sandbox.Within(path, mounts[i].Target) {
			return mounts[i], strings.Trim(strings.TrimPrefix(path, mounts[i].Target), "/"), true
		}
	}
	return m, "", false
}

// placeTarget makes the mount's target in the image, or, where another mount
// covers that place, demands that it is in that mount's source.
func placeTarget(root *node, before []sandbox.Mount, target string, dir bool) error {
	m, rel, covered := cover(before, target)
	switch {
	case !covered:
		if err := root.require(target, dir); err != nil {
			return fmt.Errorf("mount target: %w", err)
		}
		return nil
	case m.Kind == sandbox.MountTmpfs:
		return nil // the runtime makes it there
	}
	ok, err := standsIn(m.Source, strings.Split(rel, "/"), dir)
	if err != nil {
		return fmt.Errorf("mount target %q: %w", target, err)
	}
	if !ok {
		return fmt.Errorf("mount target %q is not in the source of the mount at %q", target, m.Target)
	}
	return nil
}

// placeDir demands that the working directory is there, and that no link leads
// to it: a link to /proc/self/fd/N is how CVE-2024-21626 left the container.
func placeDir(root *node, mounts []sandbox.Mount, dir string) error {
	m, rel, covered := cover(mounts, dir)
	switch {
	case dir == "/", sandbox.Within(dir, "/dev"), sandbox.Within(dir, "/proc"):
		if dir != "/" {
			return errors.New("it is the engine's own")
		}
		return nil
	case !covered:
		_, err := root.find(dir, true)
		return err
	case rel == "" || m.Kind == sandbox.MountTmpfs:
		return nil
	}
	ok, err := standsIn(m.Source, strings.Split(rel, "/"), true)
	if err == nil && !ok {
		err = fmt.Errorf("it is not in the mount at %q", m.Target)
	}
	return err
}

// mount is one of the spec's mounts as the runtime takes it.
func (b *bundle) mount(root *node, m sandbox.Mount) ([]specs.Mount, error) {
	switch m.Kind {
	case sandbox.MountBind:
		return []specs.Mount{{
			Destination: m.Target, Type: "bind", Source: m.Source, Options: ocispec.BindOptions(m.Writable, m.NoExec),
		}}, nil
	case sandbox.MountTmpfs:
		return []specs.Mount{ocispec.Tmpfs(m, b.spec.Identity.Inside)}, nil
	case sandbox.MountLayer:
		return b.layerMounts(root, m)
	default:
		return nil, fmt.Errorf("kind %q is not one of engine local's", m.Kind)
	}
}
