package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"

	"github.com/moby/moby/client"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/userfile"
)

// insideImage looks for what an image's files would do to a container before
// its first process runs.
func (e *Engine) insideImage(ctx context.Context, id string, spec sandbox.Spec, image client.ImageInspectResult) ([]string, error) {
	if spec.Image.Kind == sandbox.ImageSupervisor {
		return nil, nil // made here: there is nothing of the kind in it
	}
	links, err := e.linksInImage(ctx, id, spec, image)
	if err != nil {
		return nil, err
	}
	groups, err := e.groupsInImage(ctx, id, spec.Identity.Inside, image.ID)
	return append(links, groups...), err
}

// linksInImage refuses an image that has a symbolic link on the way to a mount
// or to the working directory: the mount would land elsewhere than reported.
// Answers are remembered by the image's digest.
func (e *Engine) linksInImage(ctx context.Context, id string, spec sandbox.Spec, image client.ImageInspectResult) ([]string, error) {
	seen := map[string]bool{}
	var problems []string
	targets := []string{spec.Dir, "/dev", "/proc", "/sys", "/etc"}
	for _, m := range spec.Mounts {
		targets = append(targets, m.Target)
	}
	for _, target := range targets {
		for p := path.Clean(target); p != "/" && p != "."; p = path.Dir(p) {
			if seen[p] {
				break
			}
			seen[p] = true
			link, err := e.linkInImage(ctx, id, image.ID, p)
			if err != nil {
				return nil, err
			}
			if link {
				problems = append(problems, fmt.Sprintf("the image makes %s, on the way to %s, a symbolic link", p, target))
			}
		}
	}
	return problems, nil
}

func (e *Engine) linkInImage(ctx context.Context, id, digest, path string) (bool, error) {
	key := digest + path
	if e.isPlain(key) {
		return false, nil
	}
	st, err := e.api.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: path})
	switch {
	case gone(err):
	case err != nil:
		return false, fmt.Errorf("look for links at %q: %w", path, err)
	case st.Stat.Mode&os.ModeSymlink != 0:
		return true, nil
	}
	e.setPlain(key)
	return false, nil
}

// groupsInImage refuses an image whose user files would give the process a
// group beside its own: the daemon looks the id up there, also when user and
// group are given as numbers.
func (e *Engine) groupsInImage(ctx context.Context, id string, uid uint32, digest string) ([]string, error) {
	key := fmt.Sprintf("%s groups of %d", digest, uid)
	if e.isPlain(key) {
		return nil, nil
	}
	passwd, err := e.readFile(ctx, id, "/etc/passwd")
	if err != nil {
		return nil, err
	}
	group, err := e.readFile(ctx, id, "/etc/group")
	if err != nil {
		return nil, err
	}
	problems := userfile.MoreGroups(passwd, group, strconv.FormatUint(uint64(uid), 10))
	if len(problems) == 0 {
		e.setPlain(key)
	}
	return problems, nil
}

// readFile reads a regular file of the created container; one that is not there
// is empty.
func (e *Engine) readFile(ctx context.Context, id, path string) (content string, err error) {
	got, err := e.api.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: path})
	if gone(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s of the image: %w", path, err)
	}
	defer func() { err = errors.Join(err, got.Content.Close()) }()
	r := tar.NewReader(got.Content)
	h, err := r.Next()
	if err != nil || h.Typeflag != tar.TypeReg || h.Size > userfile.Max {
		return "", errors.Join(err, fmt.Errorf("the image's %s is not a regular file of at most %d bytes", path, userfile.Max))
	}
	b, err := io.ReadAll(r)
	return string(b), err
}

func (e *Engine) isPlain(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.plain[key]
}

func (e *Engine) setPlain(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.plain[key] = true
}
