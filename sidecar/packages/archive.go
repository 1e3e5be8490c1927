package packages

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Limits of one archive.
const (
	MaxArchive        = 512 << 20 // bytes, compressed
	maxUnpacked       = 2 << 30   // bytes of all files
	maxArchiveEntries = 200_000
	maxArchivePath    = 4096
	maxPackageJSON    = 1 << 20
	maxManifests      = 500 // whose programs are known
)

// Archive is what npm unpacks of a package's tarball.
type Archive struct {
	// Files are the SHA-256 of each file's content by its path in the package's
	// directory.
	Files map[string][32]byte
	// Bins are the programs that npm links, by the directory of their package
	// ("" is this one, others are bundled): name to path in that directory.
	Bins map[string]map[string]string
}

// ReadArchive reads a package's tarball without unpacking it. Like npm it drops
// the first part of each path, links, devices and modes, and reads .gitignore as
// .npmignore where there is none before. An archive with a path that leaves the
// package's directory is refused whole.
func ReadArchive(r io.Reader) (*Archive, error) {
	unzipped, err := gzip.NewReader(io.LimitReader(r, MaxArchive))
	if err != nil {
		return nil, &Error{Reason: Malformed, Subject: "archive", Err: err}
	}
	a := &archiveReader{out: &Archive{Files: map[string][32]byte{}, Bins: map[string]map[string]string{}}, ignores: map[string]bool{}, manifests: map[string][]byte{}, left: maxUnpacked}
	tr := tar.NewReader(&io.LimitedReader{R: unzipped, N: maxUnpacked + maxArchiveEntries*1024})
	for n := 0; ; n++ {
		h, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF):
			a.bins()
			return a.out, nil
		case err != nil:
			return nil, &Error{Reason: Malformed, Subject: "archive", Err: err}
		case n == maxArchiveEntries:
			return nil, refuse(TooLarge, "archive", "its entries")
		}
		if err := a.entry(h, tr); err != nil {
			return nil, err
		}
	}
}

type archiveReader struct {
	out       *Archive
	ignores   map[string]bool
	left      int64
	manifests map[string][]byte // package.json, by its directory
}

func (a *archiveReader) entry(h *tar.Header, content io.Reader) error {
	if len(h.Name) > maxArchivePath {
		return refuse(Malformed, "archive", "a path that is too long")
	}
	switch h.Typeflag {
	case tar.TypeReg, '\x00', tar.TypeCont:
	default:
		return nil
	}
	_, name, ok := strings.Cut(h.Name, "/")
	if !ok || name == "" {
		return nil // npm drops what has no second part
	}
	if clean := path.Clean(name); clean != name || strings.HasPrefix(h.Name, "/") || !inside(name) || strings.ContainsAny(name, "\\\x00") {
		return refuse(Malformed, "archive", fmt.Sprintf("the path %q", h.Name))
	}
	if h.Size > a.left {
		return refuse(TooLarge, "archive", "its files")
	}
	a.left -= h.Size
	switch base := path.Base(name); base {
	case ".npmignore":
		a.ignores[name] = true
	case ".gitignore":
		name = strings.TrimSuffix(name, base) + ".npmignore"
		if a.ignores[name] {
			return nil
		}
	}
	sum := sha256.New()
	if dir, ok := packageOf(name); ok && h.Size <= maxPackageJSON && len(a.manifests) < maxManifests {
		var err error
		if a.manifests[dir], err = io.ReadAll(io.TeeReader(content, sum)); err != nil {
			return &Error{Reason: Malformed, Subject: "archive", Err: err}
		}
	} else if _, err := io.Copy(sum, content); err != nil {
		return &Error{Reason: Malformed, Subject: "archive", Err: err}
	}
	a.out.Files[name] = [32]byte(sum.Sum(nil))
	return nil
}

func inside(name string) bool {
	return name != ".." && !strings.HasPrefix(name, "../") && !strings.HasPrefix(name, "/")
}

// packageOf is the directory of the package whose package.json has the name.
func packageOf(name string) (dir string, ok bool) {
	if name == "package.json" {
		return "", true
	}
	dir, ok = strings.CutSuffix(name, "/package.json")
	return dir, ok && regexp.MustCompile(`^(?:node_modules/(?:@[^/]+/)?[^@/]+(?:/|$))+$`).MatchString(dir)
}

func (a *archiveReader) bins() {
	for dir, manifest := range a.manifests {
		if bins := a.binsOf(dir, manifest); len(bins) > 0 {
			a.out.Bins[dir] = bins
		}
	}
}

// binsOf reads which programs a package has. One that cannot be read is none.
func (a *archiveReader) binsOf(dir string, manifest []byte) map[string]string {
	var p struct {
		Name        string          `json:"name,omitempty"`
		Bin         json.RawMessage `json:"bin,omitempty"`
		Directories json.RawMessage `json:"directories,omitempty"`
	}
	if readForeign(manifest, &p, maxPackageJSON) != nil {
		return nil
	}
	var one string
	var many, directories map[string]string
	within := func(file string) string { return strings.TrimPrefix(path.Join("/", dir, path.Clean("/"+file)), "/") }
	switch {
	case json.Unmarshal(p.Bin, &one) == nil && one != "":
		many = map[string]string{p.Name: one}
	case json.Unmarshal(p.Bin, &many) == nil && len(many) > 0:
	case json.Unmarshal(p.Directories, &directories) == nil && directories["bin"] != "":
		many = map[string]string{}
		for name := range a.out.Files {
			if rest, ok := strings.CutPrefix(name, within(directories["bin"])+"/"); ok {
				many[rest] = path.Join("/", directories["bin"], rest)
			}
		}
	}
	bins := map[string]string{}
	for name, file := range many {
		if _, has := a.out.Files[within(file)]; has {
			bins[path.Base(name)] = strings.TrimPrefix(path.Clean("/"+file), "/")
		}
	}
	return bins
}

// ForeignBin is the name of a program that leads to another file than the
// package in dir says ("" is the archive's own), the first one in byte order,
// or "". One whose file is not there is none.
func (a *Archive) ForeignBin(dir string, bins map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(bins)) {
		if _, has := a.Files[path.Join(dir, bins[name])]; has && a.Bins[dir][name] != bins[name] {
			return name
		}
	}
	return ""
}
