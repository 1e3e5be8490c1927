package registry

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/packages"
)

// Bounds of reading an archive, in bytes once unpacked.
const (
	maxUnpacked = 2 << 30
	maxManifest = 1 << 20
	maxDepth    = 64
)

// packageJSON is what installing needs of a package's own package.json.
type packageJSON struct {
	Name                 string          `json:"name"`
	Version              string          `json:"version"`
	Dependencies         json.RawMessage `json:"dependencies,omitempty"`
	OptionalDependencies json.RawMessage `json:"optionalDependencies,omitempty"`
	PeerDependencies     json.RawMessage `json:"peerDependencies,omitempty"`
	PeerDependenciesMeta json.RawMessage `json:"peerDependenciesMeta,omitempty"`
	BundleDependencies   json.RawMessage `json:"bundleDependencies,omitempty"`
	BundledDependencies  json.RawMessage `json:"bundledDependencies,omitempty"`
	Bin                  json.RawMessage `json:"bin,omitempty"`
	Engines              json.RawMessage `json:"engines,omitempty"`
	OS                   json.RawMessage `json:"os,omitempty"`
	CPU                  json.RawMessage `json:"cpu,omitempty"`
	Libc                 json.RawMessage `json:"libc,omitempty"`
	Scripts              json.RawMessage `json:"scripts,omitempty"`
	Gypfile              json.RawMessage `json:"gypfile,omitempty"`
}

// version is one version in a document for npm.
type version struct {
	Name                 string          `json:"name"`
	Version              string          `json:"version"`
	Deprecated           string          `json:"deprecated,omitempty"`
	Dependencies         json.RawMessage `json:"dependencies,omitempty"`
	OptionalDependencies json.RawMessage `json:"optionalDependencies,omitempty"`
	PeerDependencies     json.RawMessage `json:"peerDependencies,omitempty"`
	PeerDependenciesMeta json.RawMessage `json:"peerDependenciesMeta,omitempty"`
	BundleDependencies   json.RawMessage `json:"bundleDependencies,omitempty"`
	Bin                  json.RawMessage `json:"bin,omitempty"`
	Engines              json.RawMessage `json:"engines,omitempty"`
	OS                   json.RawMessage `json:"os,omitempty"`
	CPU                  json.RawMessage `json:"cpu,omitempty"`
	Libc                 json.RawMessage `json:"libc,omitempty"`
	HasInstallScript     bool            `json:"hasInstallScript,omitempty"`
	HasShrinkwrap        bool            `json:"_hasShrinkwrap,omitempty"`
	Dist                 dist            `json:"dist"`
}

type dist struct {
	Integrity string `json:"integrity,omitempty"`
	Tarball   string `json:"tarball"`
}

// readArchive says what an archive is, from its own package.json.
func readArchive(r io.Reader, id packages.Identity) (version, error) {
	raw, more, err := findManifest(r)
	if err != nil {
		return version{}, fmt.Errorf("archive of %s: %w", id.Spec(), err)
	}
	var p packageJSON
	if err := strictjson.NewForeign(strictjson.Limits{Size: maxManifest, Depth: maxDepth}).Unmarshal(raw, &p); err != nil {
		return version{}, fmt.Errorf("package.json of %s: %w", id.Spec(), err)
	}
	if p.Name != id.Name || strings.TrimPrefix(p.Version, "v") != id.Version {
		return version{}, fmt.Errorf("package.json of %s says that it is %.100q@%.100q", id.Spec(), p.Name, p.Version)
	}
	v := fromManifest(p, id)
	v.HasShrinkwrap, v.HasInstallScript = more.shrinkwrap, installs(p, more.gyp)
	return v, nil
}

func fromManifest(p packageJSON, id packages.Identity) version {
	v := version{
		Name: id.Name, Version: id.Version, Dependencies: p.Dependencies, OptionalDependencies: p.OptionalDependencies,
		PeerDependencies: p.PeerDependencies, PeerDependenciesMeta: p.PeerDependenciesMeta, BundleDependencies: p.BundleDependencies,
		Bin: normalBin(id.Name, p.Bin), Engines: p.Engines, OS: p.OS, CPU: p.CPU, Libc: p.Libc, Dist: dist{Integrity: id.Integrity},
	}
	if v.BundleDependencies == nil {
		v.BundleDependencies = p.BundledDependencies
	}
	return v
}

type beside struct{ gyp, shrinkwrap bool }

// findManifest returns the package.json of an archive. Like npm, it takes the
// first part off every name, and the last of equal names.
func findManifest(r io.Reader) (raw []byte, more beside, err error) {
	zr, err := gzip.NewReader(r)
	if err != nil {
		return nil, more, err
	}
	limited := &io.LimitedReader{R: zr, N: maxUnpacked}
	for tr := tar.NewReader(limited); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, more, err
		}
		_, name, ok := strings.Cut(path.Clean(strings.TrimPrefix(h.Name, "/")), "/")
		if !ok || h.Typeflag != tar.TypeReg {
			continue
		}
		switch name {
		case "package.json":
			if raw, err = io.ReadAll(io.LimitReader(tr, maxManifest+1)); err != nil {
				return nil, more, err
			}
			if len(raw) > maxManifest {
				return nil, more, fmt.Errorf("its package.json is larger than %d bytes", maxManifest)
			}
		case "binding.gyp":
			more.gyp = true
		case "npm-shrinkwrap.json":
			more.shrinkwrap = true
		}
	}
	if limited.N == 0 {
		return nil, more, errors.New("unpacked, it is too large")
	}
	if raw == nil {
		return nil, more, errors.New("it has no package.json")
	}
	return raw, more, nil
}

// normalBin gives a lone program its package's name.
func normalBin(name string, bin json.RawMessage) json.RawMessage {
	var one string
	if json.Unmarshal(bin, &one) != nil || one == "" {
		return bin
	}
	base := name[strings.LastIndexByte(name, '/')+1:]
	b, err := json.Marshal(map[string]string{base: one})
	if err != nil {
		return nil
	}
	return b
}

// installs reports whether npm would run something of the package when it
// installs it: one of three scripts, or a build that binding.gyp stands for.
func installs(p packageJSON, gyp bool) bool {
	var scripts map[string]json.RawMessage
	_ = json.Unmarshal(p.Scripts, &scripts)
	for _, s := range []string{"preinstall", "install", "postinstall"} {
		if _, ok := scripts[s]; ok {
			return true
		}
	}
	return gyp && string(p.Gypfile) != "false"
}
