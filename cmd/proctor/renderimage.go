package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/proctor-project/proctor/sandbox/chain"
	"github.com/proctor-project/proctor/sandbox/ociimage"
)

// imageName is the name that an archive's image has for docker load.
const imageName = "proctor:local"

type renderedImage struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
	ID     string `json:"id"` // digest of its configuration
}

func (a *app) renderImage(files bool) error {
	if files && a.asJSON {
		return &usageError{errors.New("--files and --json contradict each other")}
	}
	layer, err := imageLayer()
	if err != nil {
		return err
	}
	if files {
		_, err := a.out.Write(layer)
		return err
	}
	image := imageOf(layer)
	if !a.asJSON {
		return image.WriteTo(a.out, imageName)
	}
	cfg, err := image.Config()
	if err != nil {
		return err
	}
	a.printJSON(renderedImage{"proctor/render-image/v1", imageName, ociimage.Digest(cfg)})
	return nil
}

// imageOf has the configuration that the Dockerfile says, too.
func imageOf(layer []byte) ociimage.Image {
	return ociimage.Image{
		Layer: layer, Architecture: runtime.GOARCH, User: fmt.Sprintf("%d:%d", chain.SupervisorID, chain.SupervisorID),
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, // every builder says so
		Entrypoint: []string{"/proctor-sidecar"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "proctor",
			"org.opencontainers.image.description": "Supervisor, reader and first process of agents",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.source":      "https://github.com/proctor-project/proctor",
			"org.opencontainers.image.version":     "0.1.0-dev",
		},
	}
}

// imageLayer is the programs, and the directories that volumes are mounted on.
func imageLayer() ([]byte, error) {
	dir, err := toolsDir()
	if err != nil {
		return nil, err
	}
	var files []ociimage.File
	for _, name := range []string{"proctor-agent", "proctor-sidecar"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, ociimage.File{Path: "/" + name, Content: content, Mode: 0o755})
	}
	return ociimage.Layer(imageDirs(), files)
}

// imageDirs are where a stack's volumes are mounted first: a volume takes owner
// and mode from here.
func imageDirs() []ociimage.Dir {
	const private, shared = 0o700, 0o755
	return []ociimage.Dir{
		{Path: "/control", Mode: shared},
		{Path: "/control/cache", Owner: chain.SupervisorID, Mode: private},
		{Path: "/control/ledger", Owner: chain.SupervisorID, Mode: private},
		{Path: "/control/session", Owner: chain.SupervisorID, Mode: private},
		{Path: "/handoff", Mode: shared},
		{Path: "/handoff/baseline", Mode: shared},
		{Path: "/handoff/facts", Owner: chain.GuestID, Mode: shared},
		{Path: "/handoff/release", Owner: chain.SupervisorID, Mode: shared},
		{Path: "/keys", Mode: shared},
		{Path: "/keys/doors", Owner: chain.SupervisorID, Mode: private},
		{Path: "/keys/ledger", Owner: chain.SupervisorID, Mode: private},
		{Path: "/keys/root", Owner: chain.SupervisorID, Mode: private},
		{Path: "/programs", Owner: chain.SupervisorID, Mode: shared},
		{Path: "/run", Mode: shared},
		{Path: "/run/checks", Owner: chain.SupervisorID, Mode: shared},
		{Path: "/run/proctor", Owner: chain.SupervisorID, Mode: shared},
		{Path: "/run/reader", Owner: chain.SupervisorID, Mode: shared},
		{Path: "/seals", Owner: chain.SupervisorID, Mode: private},
	}
}
