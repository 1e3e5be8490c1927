package packages

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Limits of one archive.
const (
	MaxArchive        = 512 << 20 // bytes, compressed
	maxUnpacked       = 2 << 30   // bytes of all files
	maxArchiveEntries = 200_000
	maxArchivePath    = 4096
	maxPackageJSON    = 1 << 20
)

// Archive is what npm unpacks of a package's tarball.
type Archive struct {
	// Files are the SHA-256 of each file's content by its path in the package's
	// directory.
	Files map[string][32]byte
	// Bins are the programs that npm links: name to path in the package's directory.
	Bins map[string]string
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
	a := &archiveReader{out: &Archive{Files: map[string][32]byte{}, Bins: map[string]string{}}, ignores: map[string]bool{}, left: maxUnpacked}
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
	out     *Archive
	ignores map[string]bool
	left    int64
	pkg     []byte // package.json
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
	if name == "package.json" && h.Size <= maxPackageJSON {
		var err error
		if a.pkg, err = io.ReadAll(io.TeeReader(content, sum)); err != nil {
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

// bins reads which programs the package has. One that cannot be read is none.
func (a *archiveReader) bins() {
	var p struct {
		Name        string          `json:"name,omitempty"`
		Bin         json.RawMessage `json:"bin,omitempty"`
		Directories struct {
			Bin json.RawMessage `json:"bin,omitempty"`
		} `json:"directories,omitempty"`
	}
	if len(a.pkg) == 0 || readForeign(a.pkg, &p, maxPackageJSON) != nil {
		return
	}
	var one, dir string
	var many map[string]string
	switch {
	case json.Unmarshal(p.Bin, &one) == nil && one != "":
		many = map[string]string{p.Name: one}
	case json.Unmarshal(p.Bin, &many) == nil:
	case json.Unmarshal(p.Directories.Bin, &dir) == nil && dir != "":
		many = map[string]string{}
		for name := range a.out.Files {
			if rest, ok := strings.CutPrefix(name, path.Clean(dir)+"/"); ok {
				many[rest] = name
			}
		}
	}
	for name, file := range many {
		file = strings.TrimPrefix(path.Clean("/"+file), "/")
		if _, has := a.out.Files[file]; has {
			a.out.Bins[path.Base(name)] = file
		}
	}
}
