package docker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
)

// mounted is a Spec's mounts in the daemon's terms, with what its inspection
// must show for each.
type mounted struct {
	mounts []mount.Mount
	tmpfs  map[string]string
	points []container.MountPoint // what inspect must show, in the Spec's order
	report []sandbox.MountReport
	layers []overlay
}

// mounts resolves and checks every mount of the spec, and makes its layers. On
// an error nothing is left behind.
func (e *Engine) mounts(ctx context.Context, d *daemon, spec sandbox.Spec) (*mounted, error) {
	out := &mounted{tmpfs: map[string]string{}}
	var problems []error
	for i, m := range spec.Mounts {
		var err error
		switch m.Kind {
		case sandbox.MountBind:
			err = e.bind(d, m, out)
		case sandbox.MountVolume:
			err = e.volume(ctx, m, out)
		case sandbox.MountTmpfs:
			err = tmpfs(spec, m, out)
		case sandbox.MountLayer:
			err = e.layer(ctx, d, spec, i, out)
		default:
			err = fmt.Errorf("mount %q has the unknown kind %q", m.Target, m.Kind)
		}
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, errors.Join(err, e.dropLayers(ctx, out.layers))
	}
	return out, nil
}

func (e *Engine) bind(d *daemon, m sandbox.Mount, out *mounted) error {
	if m.NoExec {
		return fmt.Errorf("mount %q: docker binds cannot be noexec", m.Target)
	}
	source, err := e.source(d, m.Source)
	if err != nil {
		return err
	}
	options := &mount.BindOptions{Propagation: mount.PropagationRPrivate}
	below, err := submounts(source)
	switch {
	case err != nil:
		return err
	case len(below) > 0 && (m.Writable || !d.recursiveRO):
		// A plain read-only bind leaves what is mounted below it writable.
		return fmt.Errorf("mount source %q has %s mounted in it, which docker would leave out or leave writable: unmount it first", m.Source, below[0])
	case !m.Writable && d.recursiveRO:
		options.ReadOnlyForceRecursive = true
	default:
		options.NonRecursive = true
	}
	out.mounts = append(out.mounts, mount.Mount{
		Type: mount.TypeBind, Source: source, Target: m.Target, ReadOnly: !m.Writable, BindOptions: options,
	})
	out.points = append(out.points, container.MountPoint{
		Type: mount.TypeBind, Source: source, Destination: m.Target, RW: m.Writable, Propagation: mount.PropagationRPrivate,
	})
	out.report = append(out.report, sandbox.MountReport{Kind: m.Kind, Source: source, Target: m.Target, Writable: m.Writable})
	return nil
}

// volume mounts one of this installation's parts, never copying into it.
func (e *Engine) volume(ctx context.Context, m sandbox.Mount, out *mounted) error {
	if m.NoExec {
		return fmt.Errorf("mount %q: docker volumes cannot be noexec", m.Target)
	}
	got, err := e.api.VolumeInspect(ctx, m.Source, client.VolumeInspectOptions{})
	if err != nil {
		return fmt.Errorf("mount volume %q: %w", m.Source, err)
	}
	if err := e.isPart(got.Volume); err != nil {
		return err
	}
	out.addVolume(m, mount.Mount{
		Type: mount.TypeVolume, Source: m.Source, Target: m.Target, ReadOnly: !m.Writable,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true},
	})
	return nil
}

func (out *mounted) addVolume(m sandbox.Mount, asked mount.Mount) {
	out.mounts = append(out.mounts, asked)
	out.points = append(out.points, container.MountPoint{
		Type: mount.TypeVolume, Name: asked.Source, Destination: m.Target, RW: m.Writable, Driver: "local",
	})
	out.report = append(out.report, sandbox.MountReport{Kind: m.Kind, Source: m.Source, Target: m.Target, Writable: m.Writable})
}

// tmpfs uses the daemon's Tmpfs table: its Mounts form is always noexec before
// API 1.46.
func tmpfs(spec sandbox.Spec, m sandbox.Mount, out *mounted) error {
	if m.Size <= 0 {
		return fmt.Errorf("tmpfs %q has no size", m.Target)
	}
	options := []string{"nosuid", "nodev", fmt.Sprintf("size=%d", m.Size)}
	if m.Writable {
		options = append(options, "rw", fmt.Sprintf("uid=%d,gid=%d", spec.Identity.Inside, spec.Identity.Inside), "mode="+tmpfsMode(m.Target))
	} else {
		options = append(options, "ro", "mode=0755")
	}
	if m.NoExec {
		options = append(options, "noexec")
	} else {
		options = append(options, "exec")
	}
	out.tmpfs[m.Target] = strings.Join(options, ",")
	out.report = append(out.report, sandbox.MountReport{Kind: m.Kind, Target: m.Target, Writable: m.Writable, NoSuid: true, NoDev: true})
	return nil
}

// tmpfsMode is what programs expect of a temporary directory, and private
// everywhere else: ssh refuses a home that others can write.
func tmpfsMode(target string) string {
	if path.Base(target) == "tmp" {
		return "1777"
	}
	return "0700"
}
