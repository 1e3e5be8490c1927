package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/ownimage"
)

// Resolve finds the image's content digest. The supervisor's image is made and
// loaded if the daemon does not hold it yet; nothing is ever pulled.
func (e *Engine) Resolve(ctx context.Context, img sandbox.Image) (sandbox.Image, error) {
	if _, err := e.ask(ctx); err != nil {
		return sandbox.Image{}, err
	}
	switch img.Kind {
	case sandbox.ImageSupervisor:
		return e.resolveSupervisor(ctx, img)
	case sandbox.ImageRef:
		return e.resolveRef(ctx, img)
	default:
		return sandbox.Image{}, &sandbox.RefusedError{
			Container: img.Ref, Problems: []string{fmt.Sprintf("engine docker cannot run an image of kind %q", img.Kind)},
			Remedy: "name an image that docker holds, or use --engine local",
		}
	}
}

func (e *Engine) resolveRef(ctx context.Context, img sandbox.Image) (sandbox.Image, error) {
	if _, err := reference.ParseAnyReference(img.Ref); err != nil {
		return sandbox.Image{}, fmt.Errorf("resolve image %q: %w", img.Ref, err)
	}
	got, err := e.api.ImageInspect(ctx, img.Ref)
	switch {
	case errdefs.IsNotFound(err):
		return sandbox.Image{}, &sandbox.RefusedError{
			Container: img.Ref, Problems: []string{"docker does not hold this image, and proctor pulls nothing"},
			Remedy: "docker load -i FILE, docker build, or docker pull it first",
		}
	case err != nil:
		return sandbox.Image{}, fmt.Errorf("resolve image %q: %w", img.Ref, err)
	case got.Os != "linux" || got.Architecture != runtime.GOARCH:
		return sandbox.Image{}, &sandbox.RefusedError{
			Container: img.Ref, Problems: []string{fmt.Sprintf("the image is for %s/%s, and this host is linux/%s", got.Os, got.Architecture, runtime.GOARCH)},
		}
	}
	img.Digest = got.ID
	return img, nil
}

func (e *Engine) resolveSupervisor(ctx context.Context, img sandbox.Image) (sandbox.Image, error) {
	a, err := ownimage.New(img.Ref, e.cfg.Supervisor)
	if err != nil {
		return sandbox.Image{}, fmt.Errorf("resolve the supervisor's image: %w", err)
	}
	id, err := e.holds(ctx, a)
	if errdefs.IsNotFound(err) {
		if err = e.load(ctx, a); err == nil {
			id, err = e.holds(ctx, a)
		}
	}
	if err != nil {
		return sandbox.Image{}, fmt.Errorf("resolve the supervisor's image: %w", err)
	}
	img.Digest = id
	e.mu.Lock()
	e.supervisor = img
	e.mu.Unlock()
	return img, nil
}

// holds returns the id under which the daemon has exactly this image. Someone
// may have put the tag on another one: that is an error, not a load.
func (e *Engine) holds(ctx context.Context, a *ownimage.Archive) (string, error) {
	got, err := e.api.ImageInspect(ctx, a.Tag)
	if err != nil {
		return "", err
	}
	if !slices.Equal(got.RootFS.Layers, []string{a.DiffID}) {
		return "", fmt.Errorf("the tag %s is on an image with other content: remove it (docker rmi %s)", a.Tag, a.Tag)
	}
	if c := got.Config; c != nil && (len(c.Env) > 0 || len(c.Volumes) > 0 || len(c.Entrypoint) > 0 || len(c.Cmd) > 0 || c.User != "") {
		return "", fmt.Errorf("the tag %s is on an image with a configuration of its own: remove it (docker rmi %s)", a.Tag, a.Tag)
	}
	return got.ID, nil
}

func (e *Engine) load(ctx context.Context, a *ownimage.Archive) error {
	pr, pw := io.Pipe()
	written := make(chan struct{})
	go e.cfg.Crash.Guard(func() {
		defer close(written)
		_ = pw.CloseWithError(a.Write(pw)) // the reader gets the error
	})()
	res, err := e.api.ImageLoad(ctx, pr, client.ImageLoadWithQuiet(true))
	if err != nil {
		_ = pr.CloseWithError(err)
		<-written
		return fmt.Errorf("load image: %w", err)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res, 1<<20))
	err = errors.Join(err, res.Close())
	_ = pr.CloseWithError(io.ErrClosedPipe)
	<-written
	if err != nil {
		return fmt.Errorf("load image: %w", err)
	}
	return nil
}

// inspected is what an image would add to a container.
func (e *Engine) inspected(ctx context.Context, digest string) (client.ImageInspectResult, error) {
	e.mu.Lock()
	got, ok := e.images[digest]
	e.mu.Unlock()
	if ok {
		return got, nil
	}
	got, err := e.api.ImageInspect(ctx, digest)
	if err != nil {
		return got, fmt.Errorf("inspect image %s: %w", digest, err)
	}
	if got.ID != digest {
		return got, fmt.Errorf("inspect image %s: the daemon answered with %s", digest, got.ID)
	}
	e.mu.Lock()
	e.images[digest] = got
	e.mu.Unlock()
	return got, nil
}
