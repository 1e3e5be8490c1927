package docker

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/ownimage"
)

func (e *Engine) partName(part sandbox.Part, session string) string {
	name := "proctor-" + e.cfg.Place + "-" + string(part)
	if part.PerSession() {
		name += "-" + session
	}
	return name
}

// ofSession refuses a part without its session, or a session without use.
func ofSession(part sandbox.Part, session string) error {
	if part.PerSession() != (session != "") || (session != "" && !sandbox.ValidSession(session)) {
		return fmt.Errorf("part %q with session %q", part, session)
	}
	return nil
}

// Part is a volume of its own for every part.
func (e *Engine) Part(part sandbox.Part, session string) sandbox.Mount {
	return sandbox.Mount{Kind: sandbox.MountVolume, Source: e.partName(part, session), Target: part.Target()}
}

// HasPart says whether the part's volume exists. A volume of that name that is
// not this installation's plain local volume is an error.
func (e *Engine) HasPart(ctx context.Context, part sandbox.Part, session string) (bool, error) {
	name := e.partName(part, session)
	if err := ofSession(part, session); err != nil {
		return false, fmt.Errorf("look for volume: %w", err)
	}
	got, err := e.api.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for volume %q: %w", name, err)
	}
	return true, e.isPart(got.Volume)
}

// isPart refuses a volume that is not one of this installation's parts, and
// one whose content lies elsewhere than in the daemon's own directory.
func (e *Engine) isPart(v volume.Volume) error {
	switch {
	case v.Driver != "local" || len(v.Options) > 0:
		return fmt.Errorf("volume %q is not a plain local volume (driver %q, options %v)", v.Name, v.Driver, v.Options)
	case v.Labels[labelKind] != kindPart || v.Labels[labelPlace] != e.cfg.Place:
		return fmt.Errorf("volume %q was not made by this installation", v.Name)
	}
	return nil
}

// MakePart creates the part's volume. The daemon gives an empty volume the
// owner and mode of the image's directory when a container that mounts it
// without nocopy is created; that container is never started.
func (e *Engine) MakePart(ctx context.Context, part sandbox.Part, session string, owner sandbox.Identity) error {
	name := e.partName(part, session)
	if owner.Host != e.cfg.Supervisor || owner.Inside != owner.Host {
		return fmt.Errorf("make part %q: owner %d is not the supervisor's id %d", name, owner.Host, e.cfg.Supervisor)
	}
	e.mu.Lock()
	image := e.supervisor
	e.mu.Unlock()
	if image.Digest == "" {
		return fmt.Errorf("make part %q: the supervisor's image was not resolved", name)
	}
	if has, err := e.HasPart(ctx, part, session); err != nil || has {
		return errors.Join(err, fmt.Errorf("make part %q: it exists", name))
	}
	labels := map[string]string{
		labelKind: kindPart, labelPlace: e.cfg.Place, labelPart: string(part), labelSession: session, labelNonce: rand.Text(),
	}
	made, err := e.api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Driver: "local", Labels: labels})
	if err != nil {
		return fmt.Errorf("make part %q: %w", name, err)
	}
	// Creating a volume that exists succeeds and returns the existing one.
	if made.Volume.Labels[labelNonce] != labels[labelNonce] {
		return fmt.Errorf("make part %q: another process made it at the same time", name)
	}
	if err := e.fillPart(ctx, part, name, image.Digest); err != nil {
		return errors.Join(fmt.Errorf("make part %q: %w", name, err), e.RemovePart(context.WithoutCancel(ctx), part, session))
	}
	return nil
}

// fillPart lets the daemon copy the image's empty directory, and reads back
// owner and mode through the daemon, as the volume itself is root's.
func (e *Engine) fillPart(ctx context.Context, part sandbox.Part, name, image string) (err error) {
	made, err := e.api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image: image, Entrypoint: []string{ownimage.Path}, NetworkDisabled: true,
			Labels: map[string]string{labelKind: kindContainer, labelPlace: e.cfg.Place},
		},
		HostConfig: &container.HostConfig{
			NetworkMode: "none", ReadonlyRootfs: true, CapDrop: []string{"ALL"}, LogConfig: container.LogConfig{Type: "none"},
			Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: part.Target()}},
		},
	})
	if err != nil {
		return fmt.Errorf("set owner: %w", err)
	}
	defer func() {
		_, rmErr := e.api.ContainerRemove(context.WithoutCancel(ctx), made.ID, client.ContainerRemoveOptions{Force: true})
		err = errors.Join(err, rmErr)
	}()
	content, err := e.api.CopyFromContainer(ctx, made.ID, client.CopyFromContainerOptions{SourcePath: part.Target()})
	if err != nil {
		return fmt.Errorf("read back owner: %w", err)
	}
	defer func() { err = errors.Join(err, content.Content.Close()) }()
	h, err := tar.NewReader(content.Content).Next()
	if err != nil {
		return fmt.Errorf("read back owner: %w", err)
	}
	id := int(e.cfg.Supervisor)
	if h.Typeflag != tar.TypeDir || h.Uid != id || h.Gid != id || h.Mode&0o7777 != int64(part.Mode()) {
		return fmt.Errorf("its owner is %d:%d and its mode %04o, and must be %d:%d and %04o", h.Uid, h.Gid, h.Mode&0o7777, id, id, part.Mode())
	}
	return nil
}

// RemovePart removes the part's volume and everything in it.
func (e *Engine) RemovePart(ctx context.Context, part sandbox.Part, session string) error {
	name := e.partName(part, session)
	if has, err := e.HasPart(ctx, part, session); err != nil || !has {
		return err
	}
	if _, err := e.api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{}); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove part %q: %w", name, err)
	}
	return nil
}
