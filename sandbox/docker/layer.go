package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/layer"
)

// overlay is a layer's volume.
type overlay struct {
	volume string
	layer.Layer
}

// layer makes the mount of kind layer that is the spec's i-th.
func (e *Engine) layer(ctx context.Context, d *daemon, spec sandbox.Spec, i int, out *mounted) error {
	m := spec.Mounts[i]
	switch {
	case m.Size <= 0:
		return fmt.Errorf("layer %q has no size", m.Target)
	case !m.Writable:
		return fmt.Errorf("layer %q is not writable: mount its source read-only instead", m.Target)
	case m.NoExec:
		return fmt.Errorf("layer %q: noexec is not made here", m.Target)
	case e.cfg.LayerDir == "":
		return fmt.Errorf("layer %q: the engine was given no directory for layers", m.Target)
	case os.Geteuid() != 0:
		return fmt.Errorf("layer %q: a throw-away layer of limited size needs a root launcher on docker: run proctor as root, or use --engine local", m.Target)
	}
	source, err := e.source(d, m.Source)
	if err != nil {
		return err
	}
	if below, err := submounts(source); err != nil || len(below) > 0 {
		return errors.Join(err, fmt.Errorf("layer source %q has mounts in it: %q", m.Source, below))
	}
	name := spec.Name + "-layer" + strconv.Itoa(i)
	l := overlay{volume: name, Layer: layer.Layer{Dir: filepath.Join(e.cfg.LayerDir, spec.Session, name)}}
	out.layers = append(out.layers, l)
	if err := l.Prepare(source, m.Size); err != nil {
		return fmt.Errorf("make layer %q: %w", m.Target, err)
	}
	if err := e.layerVolume(ctx, spec, l); err != nil {
		return err
	}
	out.addVolume(m, mount.Mount{
		Type: mount.TypeVolume, Source: l.volume, Target: m.Target,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true},
	})
	last := &out.report[len(out.report)-1]
	last.Source, last.NoSuid, last.NoDev = source, true, true
	return nil
}

// options are the local driver's, and what its inspection must show.
func (l overlay) options() map[string]string {
	return map[string]string{
		"type": "overlay", "device": "overlay", "o": "nosuid,nodev," + strings.Join(l.Layer.Options(), ","),
	}
}

func (e *Engine) layerVolume(ctx context.Context, spec sandbox.Spec, l overlay) error {
	labels := map[string]string{labelKind: kindLayer, labelSession: spec.Session, labelPlace: e.cfg.Place}
	if _, err := e.api.VolumeCreate(ctx, client.VolumeCreateOptions{
		Name: l.volume, Driver: "local", DriverOpts: l.options(), Labels: labels,
	}); err != nil {
		return fmt.Errorf("make volume %q: %w", l.volume, err)
	}
	got, err := e.api.VolumeInspect(ctx, l.volume, client.VolumeInspectOptions{})
	if err != nil {
		return fmt.Errorf("read back volume %q: %w", l.volume, err)
	}
	for name, want := range l.options() {
		if got.Volume.Options[name] != want || len(got.Volume.Options) != len(l.options()) || got.Volume.Driver != "local" {
			return fmt.Errorf("volume %q is not the layer that was asked for: option %s is %q", l.volume, name, got.Volume.Options[name])
		}
	}
	return nil
}

// dropLayers removes layers whose containers are gone. Absent ones are fine.
func (e *Engine) dropLayers(ctx context.Context, layers []overlay) error {
	var errs []error
	for _, l := range layers {
		if _, err := e.api.VolumeRemove(ctx, l.volume, client.VolumeRemoveOptions{Force: true}); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove volume %q: %w", l.volume, err))
			continue
		}
		errs = append(errs, l.Discard())
	}
	return errors.Join(errs...)
}
