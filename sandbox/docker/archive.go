package docker

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/ociimage"
)

// sidecarPath is where the supervisor's binary lies in its image.
const sidecarPath = "/proctor-sidecar"

// archive is the supervisor's image before it is loaded. The same binary, owner
// and architecture make the same bytes, so also the same digests.
type archive struct {
	image  ociimage.Image
	diffID string // "sha256:…" of the layer
	tag    string
}

// newArchive makes the image of a static binary. The directories that parts and
// sockets are mounted on belong to owner: a volume takes owner and mode from
// the image's directory.
func newArchive(binary []byte, owner uint32) (*archive, error) {
	layer, err := supervisorLayer(binary, owner)
	if err != nil {
		return nil, fmt.Errorf("make the supervisor's image: %w", err)
	}
	// No environment, no volume, no user, no command.
	a := &archive{image: ociimage.Image{Layer: layer, Architecture: runtime.GOARCH, Labels: map[string]string{labelKind: kindSupervisor}}}
	a.diffID = ociimage.Digest(layer)
	cfg, err := a.image.Config()
	if err != nil {
		return nil, fmt.Errorf("make the supervisor's image: %w", err)
	}
	a.tag = "proctor-supervisor:" + strings.TrimPrefix(ociimage.Digest(cfg), "sha256:")[:32]
	return a, nil
}

func supervisorLayer(binary []byte, owner uint32) ([]byte, error) {
	dirs := []ociimage.Dir{{Path: "/control", Mode: 0o755}, {Path: "/keys", Mode: 0o755}, {Path: "/run", Mode: 0o755}}
	for _, part := range []sandbox.Part{
		sandbox.PartCache, sandbox.PartLedger, sandbox.PartLedgerKeys, sandbox.PartRootKeys, sandbox.PartSession, sandbox.PartSockets,
	} {
		dirs = append(dirs, ociimage.Dir{Path: part.Target(), Owner: owner, Mode: int64(part.Mode())})
	}
	return ociimage.Layer(dirs, []ociimage.File{{Path: sidecarPath, Content: binary, Mode: 0o755}})
}

// writeTo writes the form that docker load reads (also Podman's and the
// containerd image store's).
func (a *archive) writeTo(out io.Writer) error { return a.image.WriteTo(out, a.tag) }
