// Package npmregistry is a small registry of npm packages, for the real npm in
// tests.
package npmregistry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// Package is a version that the registry has.
type Package struct {
	Name, Version string
	archive       []byte
	manifest      map[string]any
}

// Of makes a package whose program says that it runs; more is added to its
// package.json.
func Of(name, version string, more map[string]any) Package {
	p := Package{Name: name, Version: version, manifest: map[string]any{"name": name, "version": version}}
	for k, v := range more {
		p.manifest[k] = v
	}
	b, _ := json.Marshal(p.manifest)
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	tw := tar.NewWriter(zw)
	program := "#!/usr/bin/env node\nconsole.log('" + name + " " + version + " runs')\n"
	for _, f := range [][2]string{{"package.json", string(b)}, {"index.js", program}, {"x", ""}} {
		_ = tw.WriteHeader(&tar.Header{Name: "package/" + f[0], Mode: 0o755, Size: int64(len(f[1])), Typeflag: tar.TypeReg})
		_, _ = io.WriteString(tw, f[1])
	}
	_, _ = tw.Close(), zw.Close()
	p.archive = out.Bytes()
	return p
}

// Integrity names the package's bytes.
func (p Package) Integrity() string {
	sum := sha512.Sum512(p.archive)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func (p Package) path() string { return "/" + p.Name + "/-/" + p.Name + "-" + p.Version + ".tgz" }

// Lock is the package-lock.json of packages of the registry at an address.
func Lock(address string, all ...Package) []byte {
	packages := map[string]any{"": map[string]any{"name": "x", "version": "1.0.0"}}
	for _, p := range all {
		packages["node_modules/"+p.Name] = map[string]any{"version": p.Version, "resolved": address + p.path(), "integrity": p.Integrity()}
	}
	b, _ := json.Marshal(map[string]any{"name": "x", "version": "1.0.0", "lockfileVersion": 3, "packages": packages})
	return b
}

// Handler serves packages. The archive of one whose name is "swapped" is another
// than its document says.
func Handler(all ...Package) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		versions, name, latest := map[string]any{}, strings.TrimPrefix(r.URL.Path, "/"), ""
		scheme := "http://"
		if r.TLS != nil {
			scheme = "https://"
		}
		for _, p := range all {
			if r.URL.Path == p.path() {
				if p.Name == "swapped" {
					p = Of(p.Name, p.Version, map[string]any{"description": "another"})
				}
				_, _ = w.Write(p.archive)
				return
			}
			if p.Name != name {
				continue
			}
			m := map[string]any{"dist": map[string]string{"integrity": p.Integrity(), "tarball": scheme + r.Host + p.path()}}
			for k, v := range p.manifest {
				m[k] = v
			}
			versions[p.Version], latest = m, p.Version
		}
		if len(versions) == 0 {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]string{"latest": latest}, "versions": versions})
	}
}
