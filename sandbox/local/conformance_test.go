package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/local"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
)

// conformanceVariable tells the launcher that the suite kills where the engine is.
const conformanceVariable = "PROCTOR_TEST_LOCAL_CONFORMANCE"

func TestConformance(t *testing.T) {
	need.Root(t)
	place := conformancePlace(t)
	sandboxtest.Run(t, sandboxtest.Fixture{
		Engine: func(t testing.TB) sandbox.Engine {
			e, err := local.New(local.Config{
				Home: filepath.Join(place, "home"), State: filepath.Join(place, "state"), Runc: os.Getenv("PROCTOR_RUNC"),
			})
			if err != nil {
				t.Fatal(err)
			}
			return e
		},
		Hostile:    sandbox.Identity{Inside: 64001, Host: 1_900_033, HostRoot: 1_900_032},
		Supervisor: sandbox.Identity{Inside: 64003, Host: 1_900_049, HostRoot: 1_900_048},
		Image: func(t testing.TB, files []sandboxtest.File, _ sandboxtest.ImageConfig) sandbox.Image {
			dir := openDir(t, place)
			sandboxtest.WriteFiles(t, dir, files)
			return sandbox.Image{Kind: sandbox.ImageDir, Ref: dir}
		},
		Dir: func(t testing.TB, owner sandbox.Identity) string {
			dir := openDir(t, place)
			if err := os.Chown(dir, int(owner.Host), int(owner.Host)); err != nil {
				t.Fatal(err)
			}
			return dir
		},
		Forbidden: []string{filepath.Join(place, "home"), filepath.Join(place, "state"), place},
		ChildEnv:  []string{conformanceVariable + "=" + place},
	})
}

// conformancePlace is the engine's directory; every id can pass it.
func conformancePlace(t testing.TB) string {
	t.Helper()
	if place := os.Getenv(conformanceVariable); place != "" {
		return place
	}
	place, err := os.MkdirTemp("/tmp", "proctor-local-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(place); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(place, 0o755); err != nil {
		t.Fatal(err)
	}
	return place
}

func openDir(t testing.TB, place string) string {
	t.Helper()
	dir, err := os.MkdirTemp(place, "dir-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
