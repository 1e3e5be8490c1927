package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/ownimage"
)

// Resolve finds the image's content digest. The supervisor's image is made and
// imported if the namespace does not hold it yet; nothing is ever pulled.
func (e *Engine) Resolve(ctx context.Context, img sandbox.Image) (sandbox.Image, error) {
	if _, err := e.ask(ctx); err != nil {
		return sandbox.Image{}, err
	}
	var got client.Image
	var err error
	switch img.Kind {
	case sandbox.ImageSupervisor:
		got, err = e.supervisor(ctx, img.Ref)
	case sandbox.ImageRef:
		got, err = e.named(ctx, img.Ref)
	default:
		return sandbox.Image{}, &sandbox.RefusedError{
			Container: img.Ref, Problems: []string{fmt.Sprintf("engine containerd cannot run an image of kind %q", img.Kind)},
			Remedy: "name an image that containerd holds, or use --engine local",
		}
	}
	if err != nil {
		return sandbox.Image{}, fmt.Errorf("resolve image %q: %w", img.Ref, err)
	}
	img.Digest = got.Target().Digest.String()
	return img, e.unpack(ctx, got)
}

// named is an image that the namespace holds, under the name as it is given or
// as docker would write it out.
func (e *Engine) named(ctx context.Context, ref string) (client.Image, error) {
	names := []string{ref}
	if named, err := reference.ParseDockerRef(ref); err == nil && named.String() != ref {
		names = append(names, named.String())
	}
	for _, name := range names {
		img, err := e.api.GetImage(ctx, name)
		if err == nil {
			return img, nil
		}
		if !errdefs.IsNotFound(err) {
			return nil, err
		}
	}
	return nil, &sandbox.RefusedError{
		Container: ref, Problems: []string{fmt.Sprintf("containerd's namespace %s does not hold this image, and proctor pulls nothing", e.cfg.Namespace)},
		Remedy: "ctr --namespace " + e.cfg.Namespace + " images import FILE, or pull it there first",
	}
}

// supervisor is the image of a proctor-sidecar binary, imported where it is not
// there.
func (e *Engine) supervisor(ctx context.Context, path string) (client.Image, error) {
	a, err := ownimage.New(path, e.cfg.Supervisor)
	if err != nil {
		return nil, err
	}
	name := "docker.io/library/" + a.Tag
	img, err := e.api.GetImage(ctx, name)
	if errdefs.IsNotFound(err) {
		if err = e.load(ctx, a); err == nil {
			img, err = e.api.GetImage(ctx, name)
		}
	}
	if err != nil {
		return nil, err
	}
	// Someone may have put the name on another one: that is an error, not a load.
	layers, err := img.RootFS(ctx)
	if err != nil {
		return nil, err
	}
	if len(layers) != 1 || layers[0].String() != a.DiffID {
		return nil, fmt.Errorf("the name %s is on an image with other content: remove it (ctr --namespace %s images rm %s)", name, e.cfg.Namespace, name)
	}
	return img, nil
}

func (e *Engine) load(ctx context.Context, a *ownimage.Archive) error {
	pr, pw := io.Pipe()
	written := make(chan struct{})
	go e.cfg.Crash.Guard(func() {
		defer close(written)
		_ = pw.CloseWithError(a.Write(pw)) // the reader gets the error
	})()
	_, err := e.api.Import(ctx, pr)
	_ = pr.CloseWithError(io.ErrClosedPipe)
	<-written
	if err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	return nil
}

// unpack makes the image's layers snapshots, once.
func (e *Engine) unpack(ctx context.Context, img client.Image) error {
	digest := img.Target().Digest.String()
	e.mu.Lock()
	done := e.unpacked[digest]
	e.mu.Unlock()
	if done {
		return nil
	}
	config, err := img.Spec(ctx)
	if err != nil {
		return fmt.Errorf("read image %s: %w", img.Name(), err)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		return &sandbox.RefusedError{
			Container: img.Name(),
			Problems:  []string{fmt.Sprintf("the image is for %s/%s, and this host is linux/%s", config.OS, config.Architecture, runtime.GOARCH)},
		}
	}
	if err := img.Unpack(ctx, ""); err != nil {
		return fmt.Errorf("unpack image %s: %w", img.Name(), err)
	}
	e.mu.Lock()
	e.unpacked[digest] = true
	e.mu.Unlock()
	return nil
}

// byDigest is the image that a spec names, whatever it is called meanwhile.
func (e *Engine) byDigest(ctx context.Context, digest string) (client.Image, error) {
	list, err := e.api.ListImages(ctx, "target.digest=="+digest)
	if err != nil {
		return nil, fmt.Errorf("look for image %s: %w", digest, err)
	}
	for _, img := range list {
		if img.Target().Digest.String() == digest {
			return img, e.unpack(ctx, img)
		}
	}
	return nil, fmt.Errorf("containerd's namespace %s holds no image %s", e.cfg.Namespace, digest)
}

// imageAllows refuses what an image's maker may think that it has, and has not:
// volumes, and labels of ours. Nothing else of its configuration is read.
func imageAllows(spec sandbox.Spec, config v1.Image) error {
	if spec.Image.Kind == sandbox.ImageSupervisor {
		return nil // made here
	}
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(config.Config.Volumes)) {
		if !slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Target == path }) {
			errs = append(errs, fmt.Errorf("the image declares a volume at %q: build it without VOLUME", path))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.Config.Labels)) {
		if strings.HasPrefix(name, labelPrefix) {
			errs = append(errs, fmt.Errorf("the image has the label %q, which is proctor's own", name))
		}
	}
	return errors.Join(errs...)
}
