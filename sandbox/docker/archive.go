package docker

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/proctor-project/proctor/sandbox"
)

// sidecarPath is where the supervisor's binary lies in its image.
const sidecarPath = "/proctor-sidecar"

// archive is the supervisor's image before it is loaded. The same binary, owner
// and architecture make the same bytes, so also the same digests.
type archive struct {
	layer  []byte
	diffID string // "sha256:…" of the layer
	config []byte
	tag    string
}

// imageConfig is the part of an image's configuration that this image has: no
// environment, no volume, no user, no command.
type imageConfig struct {
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Created      time.Time `json:"created"`
	Config       struct {
		Labels map[string]string
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// newArchive makes the image of a static binary. The directories that parts and
// sockets are mounted on belong to owner: a volume takes owner and mode from
// the image's directory.
func newArchive(binary []byte, owner uint32) (*archive, error) {
	layer, err := supervisorLayer(binary, owner)
	if err != nil {
		return nil, fmt.Errorf("make the supervisor's image: %w", err)
	}
	a := &archive{layer: layer, diffID: digest(layer)}
	cfg := imageConfig{Architecture: runtime.GOARCH, OS: "linux", Created: time.Unix(0, 0).UTC()}
	cfg.Config.Labels = map[string]string{labelKind: kindSupervisor}
	cfg.RootFS.Type, cfg.RootFS.DiffIDs = "layers", []string{a.diffID}
	if a.config, err = json.Marshal(cfg); err != nil {
		return nil, fmt.Errorf("make the supervisor's image: %w", err)
	}
	sum := sha256.Sum256(a.config)
	a.tag = "proctor-supervisor:" + hex.EncodeToString(sum[:16])
	return a, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func supervisorLayer(binary []byte, owner uint32) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range []string{"/control", "/keys", "/run"} {
		if err := writeDir(w, dir, 0, 0o755); err != nil {
			return nil, err
		}
	}
	for _, part := range []sandbox.Part{
		sandbox.PartCache, sandbox.PartLedger, sandbox.PartLedgerKeys, sandbox.PartRootKeys, sandbox.PartSession, sandbox.PartSockets,
	} {
		if err := writeDir(w, part.Target(), owner, int64(part.Mode())); err != nil {
			return nil, err
		}
	}
	if err := writeFile(w, sidecarPath[1:], binary, 0o755); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func header(name string, owner uint32, mode int64) *tar.Header {
	return &tar.Header{
		Name: name, Uid: int(owner), Gid: int(owner), Mode: mode,
		ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatPAX,
	}
}

func writeDir(w *tar.Writer, path string, owner uint32, mode int64) error {
	h := header(path[1:]+"/", owner, mode)
	h.Typeflag = tar.TypeDir
	return w.WriteHeader(h)
}

func writeFile(w *tar.Writer, name string, content []byte, mode int64) error {
	h := header(name, 0, mode)
	h.Size = int64(len(content))
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// writeTo writes the form that docker load reads (also Podman's and the
// containerd image store's).
func (a *archive) writeTo(out io.Writer) error {
	name := digest(a.config)[len("sha256:"):] + ".json"
	manifest, err := json.Marshal([]map[string]any{{
		"Config": name, "RepoTags": []string{a.tag}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	for _, f := range []struct {
		name    string
		content []byte
	}{{name, a.config}, {"layer.tar", a.layer}, {"manifest.json", manifest}} {
		if err := writeFile(w, f.name, f.content, 0o644); err != nil {
			return fmt.Errorf("write image archive: %w", err)
		}
	}
	return w.Close()
}
