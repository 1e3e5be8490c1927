package ociimage

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Image is a layer with its configuration.
type Image struct {
	Layer        []byte
	Architecture string
	Labels       map[string]string
	User         string // "" is root
	Env          []string
	Entrypoint   []string
}

type config struct {
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Created      time.Time `json:"created"`
	Config       struct {
		User       string            `json:"User,omitempty"`
		Env        []string          `json:"Env,omitempty"`
		Entrypoint []string          `json:"Entrypoint,omitempty"`
		Labels     map[string]string `json:"Labels"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// Config is the image's configuration; its digest is the image's id.
func (i Image) Config() ([]byte, error) {
	c := config{Architecture: i.Architecture, OS: "linux", Created: time.Unix(0, 0).UTC()}
	c.Config.User, c.Config.Env, c.Config.Entrypoint, c.Config.Labels = i.User, i.Env, i.Entrypoint, i.Labels
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{Digest(i.Layer)}
	return json.Marshal(c)
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func describe(mediaType string, b []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: Digest(b), Size: len(b)}
}

type document struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

// WriteTo writes the archive under the name, REPOSITORY:TAG: an OCI layout, with
// the manifest of docker load over the same blobs.
func (i Image) WriteTo(out io.Writer, name string) error {
	const vendor = "application/vnd.oci.image."
	cfg, err := i.Config()
	if err != nil {
		return err
	}
	about := describe(vendor+"config.v1+json", cfg)
	manifest, err := json.Marshal(document{
		SchemaVersion: 2, MediaType: vendor + "manifest.v1+json", Config: &about,
		Layers: []descriptor{describe(vendor+"layer.v1.tar", i.Layer)},
	})
	if err != nil {
		return err
	}
	entry := describe(vendor+"manifest.v1+json", manifest)
	_, tag, _ := strings.Cut(name, ":")
	entry.Annotations = map[string]string{"io.containerd.image.name": "docker.io/library/" + name, "org.opencontainers.image.ref.name": tag}
	index, err := json.Marshal(document{SchemaVersion: 2, MediaType: vendor + "index.v1+json", Manifests: []descriptor{entry}})
	if err != nil {
		return err
	}
	load, err := json.Marshal([]map[string]any{{"Config": blob(cfg), "RepoTags": []string{name}, "Layers": []string{blob(i.Layer)}}})
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	for _, f := range []File{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644},
		{"index.json", index, 0o644},
		{"manifest.json", load, 0o644},
		{blob(cfg), cfg, 0o644},
		{blob(i.Layer), i.Layer, 0o644},
		{blob(manifest), manifest, 0o644},
	} {
		if err := writeFile(w, f); err != nil {
			return fmt.Errorf("write image archive: %w", err)
		}
	}
	return w.Close()
}

func blob(b []byte) string { return "blobs/sha256/" + strings.TrimPrefix(Digest(b), "sha256:") }
