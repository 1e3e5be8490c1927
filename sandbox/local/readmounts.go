package local

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/kernel"
	"github.com/proctor-project/proctor/sandbox/ocispec"
)

// readMounts reports the container's mounts, and names as problems those that
// nobody accounts for.
func readMounts(b *bundle, pid int, r *sandbox.Report) ([]string, error) {
	inside, err := kernel.Mounts(pid)
	if err != nil {
		return nil, err
	}
	table, err := b.table()
	if err != nil {
		return nil, err
	}
	return table.Read(inside, r), nil
}

func (b *bundle) table() (ocispec.Table, error) {
	host, err := kernel.Mounts(os.Getpid())
	return ocispec.Table{Spec: b.spec, Host: host, Own: b.ownMounts(), Lower: b.lower}, err
}

// ownMounts is the engine's own table: what config.json has besides the spec's
// mounts, each of which must be what it is there.
func (b *bundle) ownMounts() func(kernel.Mount) bool {
	image := map[string]bool{}
	for _, m := range b.config.Mounts {
		if m.Type == "bind" && slices.Contains(m.Options, "ro") {
			image[m.Destination] = true
		}
	}
	return func(m kernel.Mount) bool {
		for p := range image {
			if sandbox.Within(m.Point, p) {
				return m.Has("ro") && m.Has("nosuid") && m.Has("nodev")
			}
		}
		for _, l := range b.layers {
			if m.Point == l.dir+"/mem" {
				return m.FSType == "tmpfs"
			}
		}
		return ocispec.Kernel(m)
	}
}

func (b *bundle) lower(target string) (name, source string) {
	for _, l := range b.layers {
		if l.target == target {
			return filepath.Join(b.rootfs(), l.dir, "lower"), l.source
		}
	}
	return "", ""
}
