package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/cgroup"
	"github.com/proctor-project/proctor/sandbox/gvisor"
	"github.com/proctor-project/proctor/sandbox/parts"
)

// bundle is one container's files: config.json, the skeleton of its root, and
// the runtime's log.
type bundle struct {
	dir    string // Config.State/<session>/<name>
	spec   sandbox.Spec
	config *specs.Spec
	layers []layer
}

func (b *bundle) rootfs() string { return filepath.Join(b.dir, "rootfs") }
func (b *bundle) log() string    { return filepath.Join(b.dir, "runtime.log") }

func (e *Engine) sessionDir(session string) string {
	return filepath.Join(e.cfg.State, "sessions", session)
}

// runtimeRoot is where the runtime keeps the state of a session's containers.
func (e *Engine) runtimeRoot(session, runtime string) string {
	return filepath.Join(e.sessionDir(session), "."+runtimeName(runtime))
}

func runtimeName(runtime string) string {
	if runtime == "" {
		return "runc"
	}
	return runtime
}

// ownerID is who owns a container's skeleton: the namespace's root, or, for an
// ordinary user, the user.
func (e *Engine) ownerID(id sandbox.Identity) int {
	if e.euid != 0 {
		return -1
	}
	return int(id.HostRoot)
}

// makeBundle makes the directory of the container. On an error nothing is left.
func (e *Engine) makeBundle(spec sandbox.Spec) (*bundle, error) {
	b := &bundle{dir: filepath.Join(e.sessionDir(spec.Session), spec.Name), spec: spec}
	if err := e.makeBundleDir(b.dir); err != nil {
		return nil, err
	}
	err := e.sign(b.dir)
	if err == nil {
		err = e.fillBundle(b)
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(b.dir))
		e.removeIfEmpty(spec.Session, spec.Runtime)
		return nil, err
	}
	return b, nil
}

func (e *Engine) makeBundleDir(dir string) error {
	e.shape.Lock()
	defer e.shape.Unlock()
	if err := os.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o700)
}

func (e *Engine) fillBundle(b *bundle) error {
	owner := e.ownerID(b.spec.Identity)
	if owner >= 0 {
		// The container's root is reached by its own ids, and by no others.
		if err := os.Chown(b.dir, 0, owner); err != nil {
			return err
		}
		if err := os.Chmod(b.dir, 0o710); err != nil {
			return err
		}
	}
	root, err := e.imageRoot(b.spec)
	if err != nil {
		return err
	}
	mounts, err := e.prepareMounts(b, root)
	if err != nil {
		return err
	}
	if err := os.Mkdir(b.rootfs(), 0o755); err != nil {
		return err
	}
	binds, err := root.build(b.rootfs(), owner)
	if err != nil {
		return err
	}
	if err := b.makeLayers(owner, int(b.spec.Identity.Host), e.euid == 0); err != nil {
		return err
	}
	b.config, err = e.config(b.spec, append(binds, mounts...))
	if err != nil {
		return err
	}
	body, err := json.Marshal(b.config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, "config.json"), body, 0o600)
}

// imageRoot is the image's own tree, with the places that every container has.
func (e *Engine) imageRoot(spec sandbox.Spec) (*node, error) {
	var root *node
	var err error
	switch spec.Image.Kind {
	case sandbox.ImageSupervisor:
		root = ownDir()
		root.children["etc"] = ownDir()
		var kept string
		if kept, err = e.keptSupervisor(spec.Image.Digest); err == nil {
			root.children[supervisorBinary] = &node{hardlink: kept}
			_, err = os.Stat(kept)
		}
	case sandbox.ImageHost:
		root, err = hostRoot(spec.Identity, spec.Env)
	case sandbox.ImageDir:
		root = &node{src: spec.Image.Ref, dir: true}
		err = root.expand()
	default:
		err = fmt.Errorf("an image of kind %q cannot run here", spec.Image.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	// What an image has at these places is not ours to use: the kernel's own
	// file systems are mounted here.
	for _, name := range []string{"proc", "dev", "sys"} {
		root.children[name] = ownDir()
	}
	if root.children["tmp"] == nil {
		root.children["tmp"] = ownDir()
	}
	return root, nil
}

// removeBundle removes the container's files, and the session's directory with
// the last of them.
func (e *Engine) removeBundle(ctx context.Context, b *bundle) error {
	if err := parts.RemoveTree(ctx, b.dir); err != nil {
		return err
	}
	e.removeIfEmpty(b.spec.Session, b.spec.Runtime)
	return nil
}

// removeIfEmpty does nothing while another container of the session exists or is
// being made: its bundle is there first and goes last.
func (e *Engine) removeIfEmpty(session, runtime string) {
	e.shape.Lock()
	defer e.shape.Unlock()
	entries, err := os.ReadDir(e.sessionDir(session))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") { // not a runtime's own state
			return
		}
	}
	root := e.runtimeRoot(session, runtime)
	if runtimeName(runtime) == gvisor.Runtime {
		if left, err := filepath.Glob(filepath.Join(root, "*.state")); err != nil || len(left) > 0 {
			return
		}
		gvisor.RemoveLeftovers(root)
	}
	_ = os.Remove(root)
	_ = os.Remove(e.sessionDir(session))
	dirs, _ := cgroup.Dirs(cgroup.Session(session))
	for _, dir := range dirs {
		_ = os.Remove(dir)
	}
}
