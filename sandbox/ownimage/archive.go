package ownimage

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/ociimage"
)

// Path is where the binary lies in the image.
const Path = "/proctor-sidecar"

// maxBinary bounds the binary, in bytes.
const maxBinary = 256 << 20

// The label of the image, and its value.
const (
	LabelKind = "proctor.kind"
	Kind      = "supervisor"
)

// Archive is the image before an engine has it.
type Archive struct {
	Tag    string // NAME:TAG, by the content
	DiffID string // "sha256:…" of the layer

	image ociimage.Image
}

// New makes the image of the static binary in a file. The directories that
// parts and sockets are mounted on belong to owner: a volume takes owner and
// mode from the image's directory.
func New(path string, owner uint32) (*Archive, error) {
	binary, err := readBinary(path)
	if err != nil {
		return nil, err
	}
	layer, err := layer(binary, owner)
	if err != nil {
		return nil, fmt.Errorf("make the supervisor's image: %w", err)
	}
	// No environment, no volume, no user, no command.
	a := &Archive{image: ociimage.Image{Layer: layer, Architecture: runtime.GOARCH, Labels: map[string]string{LabelKind: Kind}}}
	a.DiffID = ociimage.Digest(layer)
	cfg, err := a.image.Config()
	if err != nil {
		return nil, fmt.Errorf("make the supervisor's image: %w", err)
	}
	a.Tag = "proctor-supervisor:" + strings.TrimPrefix(ociimage.Digest(cfg), "sha256:")[:32]
	return a, nil
}

func layer(binary []byte, owner uint32) ([]byte, error) {
	dirs := []ociimage.Dir{{Path: "/control", Mode: 0o755}, {Path: "/etc", Mode: 0o755}, {Path: "/keys", Mode: 0o755}, {Path: "/run", Mode: 0o755}}
	for _, part := range []sandbox.Part{
		sandbox.PartCache, sandbox.PartLedger, sandbox.PartLedgerKeys, sandbox.PartRootKeys, sandbox.PartSession, sandbox.PartSockets,
	} {
		dirs = append(dirs, ociimage.Dir{Path: part.Target(), Owner: owner, Mode: int64(part.Mode())})
	}
	return ociimage.Layer(dirs, []ociimage.File{{Path: Path, Content: binary, Mode: 0o755}})
}

// Write writes the form that docker load reads (also Podman's, and
// containerd's import).
func (a *Archive) Write(out io.Writer) error { return a.image.WriteTo(out, a.Tag) }

func readBinary(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%q is not a regular file", path)
	case st.Size() > maxBinary:
		return nil, fmt.Errorf("%q is larger than %d bytes", path, maxBinary)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxBinary))
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(b, []byte("\x7fELF")) {
		return nil, fmt.Errorf("%q is not an ELF binary", path)
	}
	return b, nil
}
