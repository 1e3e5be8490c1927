package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/proctor-project/proctor/sandbox"
)

// supervisorBinary is the supervisor image's one file.
const supervisorBinary = "proctor-sidecar"

// Resolve returns the image with its digest.
//
// The supervisor's is the SHA-256 of its binary, of which a copy is kept under
// that digest. That of the host or of a directory is over the names, types,
// permission bits, sizes and modification times (of the host: two levels of its
// program and library directories), not over the content: it says that an image
// is the same one as before, and protects against nobody who can write it.
func (e *Engine) Resolve(ctx context.Context, img sandbox.Image) (sandbox.Image, error) {
	var digest string
	var err error
	switch img.Kind {
	case sandbox.ImageSupervisor:
		digest, err = e.keepSupervisor(img.Ref)
	case sandbox.ImageHost:
		digest, err = hostDigest(ctx)
	case sandbox.ImageDir:
		digest, err = dirDigest(ctx, img.Ref, 1<<20)
	default:
		return sandbox.Image{}, &sandbox.UnavailableError{
			Engine: "local", Reason: fmt.Sprintf("an image of kind %q needs another engine", img.Kind),
			Remedy: "use --image host or --image rootfs:DIR, or --engine docker",
		}
	}
	if err != nil {
		return sandbox.Image{}, fmt.Errorf("resolve image %s %q: %w", img.Kind, img.Ref, err)
	}
	img.Digest = digest
	e.mu.Lock()
	e.resolved[img] = true
	e.mu.Unlock()
	return img, nil
}

// checkImage refuses an image whose digest is not what it has. One that this
// engine has resolved itself is not looked at again.
func (e *Engine) checkImage(ctx context.Context, img sandbox.Image) error {
	e.mu.Lock()
	known := e.resolved[img]
	e.mu.Unlock()
	if known {
		return nil
	}
	got, err := e.Resolve(ctx, sandbox.Image{Kind: img.Kind, Ref: img.Ref})
	if err != nil {
		return err
	}
	if got.Digest != img.Digest {
		return fmt.Errorf("image %s %q has digest %s, not %s", img.Kind, img.Ref, got.Digest, img.Digest)
	}
	return nil
}

// keptSupervisor is where the copy of a digest is.
func (e *Engine) keptSupervisor(digest string) (string, error) {
	hexa, ok := strings.CutPrefix(digest, "sha256:")
	if b, err := hex.DecodeString(hexa); !ok || err != nil || len(b) != sha256.Size {
		return "", fmt.Errorf("digest %q is not a SHA-256", digest)
	}
	return filepath.Join(e.cfg.State, "images", hexa, supervisorBinary), nil
}

func (e *Engine) keepSupervisor(ref string) (string, error) {
	src, err := os.Open(ref)
	if err != nil {
		return "", err
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() {
		return "", fmt.Errorf("not a regular file")
	}
	h := sha256.New()
	if _, err := io.Copy(h, src); err != nil {
		return "", err
	}
	digest := "sha256:" + hex.EncodeToString(h.Sum(nil))
	kept, err := e.keptSupervisor(digest)
	if err != nil {
		return "", err
	}
	if have, err := os.Stat(kept); err == nil && have.Size() == st.Size() {
		return digest, nil
	}
	return digest, keepCopy(src, kept, digest)
}

// keepCopy writes the file under its digest, which it takes again from the
// bytes that it writes: the source may have changed since.
func keepCopy(src *os.File, kept, digest string) error {
	if err := os.MkdirAll(filepath.Dir(kept), 0o711); err != nil {
		return err
	}
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return err
	}
	out, err := renameio.NewPendingFile(kept, renameio.WithPermissions(0o555))
	if err != nil {
		return err
	}
	defer out.Cleanup()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, h), src); err != nil {
		return err
	}
	if "sha256:"+hex.EncodeToString(h.Sum(nil)) != digest {
		return fmt.Errorf("the file changed while it was read")
	}
	return out.CloseAtomicallyReplace()
}

// dirDigest walks a directory, at most max entries.
func dirDigest(ctx context.Context, dir string, max int) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("not an absolute path")
	}
	h := sha256.New()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if n++; n > max {
			return fmt.Errorf("more than %d entries", max)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return digestEntry(h, rel, path, d)
	})
	if err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// digestEntry writes one entry, unambiguously: %q has no newline.
func digestEntry(w io.Writer, rel, path string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	size := info.Size()
	if info.IsDir() {
		size = 0
	}
	_, err = fmt.Fprintf(w, "%q %o %d %d %q\n", rel, info.Mode(), size, info.ModTime().UnixNano(), link)
	return err
}
