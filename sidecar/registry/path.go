package registry

import (
	"errors"
	"strings"

	"github.com/proctor-project/proctor/sidecar/packages"
)

// kind is what a path of the registry's API asks for.
type kind int

const (
	unknown  kind = iota
	document      // everything about a package
	manifest      // one version
	tarball       // one version's bytes
	special       // what begins with /-/
)

// asked is a path that was read.
type asked struct {
	kind    kind
	name    string // a package's
	version string // exact, or a tag for manifest
	rest    string // special only
}

// parsePath reads the decoded path of a request; prefix is the path of the
// registry's own address, which a client may put in front.
func parsePath(path, prefix string) (asked, error) {
	if prefix != "" {
		if rest, ok := strings.CutPrefix(path, prefix+"/"); ok {
			path = "/" + rest
		}
	}
	path, ok := strings.CutPrefix(path, "/")
	if !ok || path == "" {
		return asked{}, errors.New("names no package")
	}
	if rest, ok := strings.CutPrefix(path, "-/"); ok {
		return asked{kind: special, rest: rest}, nil
	}
	parts := strings.Split(path, "/")
	a := asked{kind: document, name: parts[0]}
	parts = parts[1:]
	if strings.HasPrefix(a.name, "@") {
		if len(parts) == 0 {
			return asked{}, errors.New("names a scope only")
		}
		a.name += "/" + parts[0]
		parts = parts[1:]
	}
	if err := packages.CheckName(a.name); err != nil {
		return asked{}, err
	}
	switch {
	case len(parts) == 0:
	case len(parts) == 1:
		a.kind, a.version = manifest, parts[0]
	case len(parts) == 2 && parts[0] == "-":
		v, ok := versionOf(a.name, parts[1])
		if !ok {
			return asked{}, errors.New("is no package's archive")
		}
		a.kind, a.version = tarball, v
	default:
		return asked{}, errors.New("is no path of a registry")
	}
	return a, nil
}

// versionOf takes the version out of an archive's file name.
func versionOf(name, file string) (string, bool) {
	base := name[strings.LastIndexByte(name, '/')+1:]
	v, ok := strings.CutPrefix(file, base+"-")
	if !ok {
		return "", false
	}
	v, ok = strings.CutSuffix(v, ".tgz")
	return v, ok && packages.CheckVersion(v) == nil
}

// archivePath is where every registry keeps a version's archive below its
// address.
func archivePath(name, version string) string {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return "/" + name + "/-/" + base + "-" + version + ".tgz"
}
