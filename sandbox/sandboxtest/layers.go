package sandboxtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

// testLayer: a check's writes succeed, and are nowhere afterwards.
func (s *suite) testLayer(t *testing.T) {
	dir := filepath.Join(s.dir(t, s.f.Hostile), "p,ro:uct \\x")
	mkdirOwned(t, dir, s.f.Hostile)
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	mkdirOwned(t, filepath.Join(dir, "sub"), s.f.Hostile)
	writeOwned(t, filepath.Join(dir, "canary"), "canary", s.f.Hostile)
	writeOwned(t, filepath.Join(dir, "sub", "gone"), "x", s.f.Hostile)
	before := hostMounts(t)

	layer := []sandbox.Mount{{Kind: sandbox.MountLayer, Source: dir, Target: "/job", Writable: true, Size: 4 << 20}}
	spec := s.spec(sandbox.RoleCheck)
	spec.Mounts = layer
	got := s.try(t, spec,
		op{"list", "/job"},
		op{"stat", "/job"},
		op{"read", "/job/canary"},
		op{"write", "/job/canary", "changed"},
		op{"write", "/job/new", "x"},
		op{"remove", "/job/sub/gone"},
		op{"remove", "/job/sub"},
		op{"read", "/job/canary"},
		op{"list", "/job"},
	)
	want(t, got, "", "", "", "", "", "", "", "", "")
	wantNames(t, got[0], "canary", "sub")
	wantNames(t, got[8], "canary", "new")
	var changed string
	if got[7].into(t, &changed); changed != "changed" {
		t.Errorf("the layer's canary is %q", changed)
	}
	var st struct{ UID, GID, Mode uint32 }
	if got[1].into(t, &st); st.UID != spec.Identity.Inside || st.GID != spec.Identity.Inside || st.Mode != 0o750 {
		t.Errorf("the layer's root is %+v", st)
	}

	if b, err := os.ReadFile(filepath.Join(dir, "canary")); err != nil || string(b) != "canary" {
		t.Errorf("the host's canary is %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "sub", "gone")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); !os.IsNotExist(err) {
		t.Errorf("the layer's file is on the host: %v", err)
	}
	// The next one starts afresh.
	spec = s.spec(sandbox.RoleCheck)
	spec.Mounts = layer
	got = s.try(t, spec, op{"list", "/job"}, op{"read", "/job/canary"})
	want(t, got, "", "")
	wantNames(t, got[0], "canary", "sub")
	for m := range hostMounts(t) {
		if !before[m] && strings.Contains(m, s.session) {
			t.Errorf("the mount %s is left", m)
		}
	}
}

func wantNames(t testing.TB, r attempt, names ...string) {
	t.Helper()
	var got []string
	r.into(t, &got)
	slices.Sort(got)
	if !slices.Equal(got, names) {
		t.Errorf("%s shows %q, want %q", r.Op, got, names)
	}
}

// testLayerLimit: a full layer is the container's own trouble.
func (s *suite) testLayerLimit(t *testing.T) {
	dir := s.dir(t, s.f.Hostile)
	spec := s.spec(sandbox.RoleCheck)
	spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountLayer, Source: dir, Target: "/job", Writable: true, Size: 2 << 20}}
	got := s.try(t, spec, op{"fill", "/job/big", "1000000"}, op{"fill", "/job/bigger", "8000000"})
	want(t, got, "", "ENOSPC")
	var filled int
	if got[1].into(t, &filled); filled >= 2<<20 {
		t.Errorf("a layer of 2 MiB took %d bytes more", filled)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the host has %v, %v", entries, err)
	}
}
