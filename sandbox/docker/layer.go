package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// A layer is an overlay volume over a directory. Its upper side is a tmpfs of
// the layer's size that the launcher mounts, so that the size is a limit and
// nothing reaches a disk. The lower side is named through a link in the
// launcher's directory: docker and the kernel both split an overlay's options
// at ":" and ",", and a path may hold either.
type layer struct {
	volume string
	dir    string // LayerDir/session/volume: lower (link), rw (tmpfs with upper and work)
}

// minInodes keeps the smallest layers usable.
const minInodes = 1024

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
	l := layer{volume: name, dir: filepath.Join(e.cfg.LayerDir, spec.Session, name)}
	out.layers = append(out.layers, l)
	if err := l.prepare(source, m.Size); err != nil {
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

// options are the local driver's, and what its inspection must show. The
// default (trusted) attributes are used: the agent cannot write those.
func (l layer) options() map[string]string {
	return map[string]string{
		"type":   "overlay",
		"device": "overlay",
		"o": fmt.Sprintf("nosuid,nodev,lowerdir=%s,upperdir=%s,workdir=%s",
			filepath.Join(l.dir, "lower"), filepath.Join(l.dir, "rw", "upper"), filepath.Join(l.dir, "rw", "work")),
	}
}

// prepare makes the layer's directory. Owner and mode of an overlay's root are
// those of the upper directory, so they are copied from the source.
func (l layer) prepare(source string, size int64) error {
	var st unix.Stat_t
	if err := unix.Lstat(source, &st); err != nil {
		return fmt.Errorf("stat %q: %w", source, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("source %q is not a directory", source)
	}
	rw := filepath.Join(l.dir, "rw")
	if err := errors.Join(os.MkdirAll(filepath.Dir(l.dir), 0o700), os.Mkdir(l.dir, 0o700)); err != nil {
		return err
	}
	if err := os.Symlink(source, filepath.Join(l.dir, "lower")); err != nil {
		return err
	}
	if err := os.Mkdir(rw, 0o700); err != nil {
		return err
	}
	options := fmt.Sprintf("mode=0700,size=%d,nr_inodes=%d", size, max(minInodes, size/4096))
	if err := unix.Mount("proctor-layer", rw, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	upper := filepath.Join(rw, "upper")
	if err := errors.Join(os.Mkdir(upper, 0o700), os.Mkdir(filepath.Join(rw, "work"), 0o700)); err != nil {
		return err
	}
	return errors.Join(os.Lchown(upper, int(st.Uid), int(st.Gid)), os.Chmod(upper, os.FileMode(st.Mode&0o777)))
}

func (e *Engine) layerVolume(ctx context.Context, spec sandbox.Spec, l layer) error {
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
func (e *Engine) dropLayers(ctx context.Context, layers []layer) error {
	var errs []error
	for _, l := range layers {
		if _, err := e.api.VolumeRemove(ctx, l.volume, client.VolumeRemoveOptions{Force: true}); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove volume %q: %w", l.volume, err))
			continue
		}
		errs = append(errs, l.discard())
	}
	return errors.Join(errs...)
}

func (l layer) discard() error {
	rw := filepath.Join(l.dir, "rw")
	err := unix.Unmount(rw, unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount layer %q: %w", rw, err)
	}
	// Only what prepare made: never a walk, the tmpfs is gone.
	for _, p := range []string{rw, filepath.Join(l.dir, "lower"), l.dir} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove layer: %w", err)
		}
	}
	_ = os.Remove(filepath.Dir(l.dir)) // the session's, once its last layer is gone
	return nil
}
