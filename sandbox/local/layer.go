package local

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/ocispec"
)

// layersDir is closed to the container's process: what lies below is the
// overlays' making, and already mounted when the process starts.
const layersDir = ".proctor-layers"

// layer is one throw-away layer over a directory.
type layer struct {
	source, target string
	dir            string // in the container: layersDir/<n>
}

// layerMounts makes an overlay from mounts alone, so that the launcher's own
// mount namespace never sees it: the lower is bound read-only; a tmpfs holds
// upper and work, which its option tmpcopyup takes from the skeleton; the
// overlay joins them. Its paths are the host's, because the runtime mounts
// before it changes the root.
func (b *bundle) layerMounts(root *node, m sandbox.Mount) ([]specs.Mount, error) {
	if b.onRunsc() {
		return []specs.Mount{{Destination: m.Target, Type: "bind", Source: m.Source, Options: ocispec.BindOptions(true, m.NoExec)}}, nil
	}
	l := layer{source: m.Source, target: m.Target, dir: fmt.Sprintf("/%s/%d", layersDir, len(b.layers))}
	b.layers = append(b.layers, l)
	if root.children[layersDir] == nil {
		n := ownDir()
		n.mode = 0o700
		root.children[layersDir] = n
	}
	at := filepath.Join(b.rootfs(), l.dir)
	opts := []string{
		"nosuid", "nodev", "userxattr",
		"lowerdir=" + at + "/lower", "upperdir=" + at + "/mem/upper", "workdir=" + at + "/mem/work",
	}
	if m.NoExec {
		opts = append(opts, "noexec")
	}
	if !m.Writable {
		return nil, fmt.Errorf("a layer that nobody may write is a read-only bind")
	}
	return []specs.Mount{
		{Destination: l.dir + "/lower", Type: "bind", Source: l.source, Options: ocispec.BindOptions(false, m.NoExec)},
		{Destination: l.dir + "/mem", Type: "tmpfs", Source: "tmpfs", Options: []string{
			"nosuid", "nodev", "mode=0700", fmt.Sprintf("size=%d", m.Size), "tmpcopyup",
		}},
		{Destination: l.target, Type: "overlay", Source: "overlay", Options: opts},
	}, nil
}

// makeLayers makes the directories of the layers in the built skeleton. The
// overlay's root takes owner and mode from upper.
func (b *bundle) makeLayers(root, id int, chown bool) error {
	for _, l := range b.layers {
		at := filepath.Join(b.rootfs(), l.dir)
		st, err := os.Stat(l.source)
		if err != nil {
			return err
		}
		for _, d := range []string{"", "lower", "mem", "mem/upper", "mem/work"} {
			path := filepath.Join(at, d)
			if err := os.Mkdir(path, 0o755); err != nil {
				return err
			}
			owner := root
			if d == "mem/upper" {
				owner = id
				if err := os.Chmod(path, st.Mode().Perm()|0o700); err != nil {
					return err
				}
			}
			if !chown {
				continue
			}
			if err := os.Chown(path, owner, owner); err != nil {
				return err
			}
		}
	}
	return nil
}
