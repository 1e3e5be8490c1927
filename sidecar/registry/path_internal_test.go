package registry

import (
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/packages"
)

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"/a", "/@s/a", "/@s/a/-/a-1.0.0.tgz", "/a/1.0.0", "/-/ping", "//", "/a/-/../b", "/npm/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parsePath(s, "/npm")
		if err != nil || a.kind == special {
			return
		}
		if packages.CheckName(a.name) != nil {
			t.Errorf("%q names %q", s, a.name)
		}
		if a.kind == tarball {
			if packages.CheckVersion(a.version) != nil || !strings.HasSuffix(s, archivePath(a.name, a.version)) {
				t.Errorf("%q is the archive of %s@%s", s, a.name, a.version)
			}
		}
	})
}

func FuzzFindManifest(f *testing.F) {
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		raw, _, err := findManifest(strings.NewReader(string(b)))
		if err == nil && (raw == nil || len(raw) > maxManifest) {
			t.Errorf("%d bytes", len(raw))
		}
	})
}
