package programs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
)

// dirVariable is the directory that Main had filled; it is empty where something
// is missing, and whyVariable then says what.
const (
	dirVariable = "PROCTOR_TEST_PROGRAMS"
	whyVariable = "PROCTOR_TEST_WHY"
)

// Main has a directory filled, runs the tests and removes it again. A test that
// needs what is in it asks Need.
func Main(m *testing.M, fill func(dir string) error) int {
	dir, err := os.MkdirTemp("/tmp", "proctor-programs-") // not every id may enter a user's own
	if err != nil {
		panic(err)
	}
	name, value := dirVariable, dir
	if err := errors.Join(os.Chmod(dir, 0o755), fill(dir)); err != nil {
		name, value = whyVariable, err.Error()
	}
	// testscript leaves a directory there when only some scripts run.
	if err := errors.Join(os.Setenv(name, value), os.Setenv("GOTMPDIR", dir)); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	return code
}

// Need is the directory. Where it could not be filled, the test is skipped, but
// never in CI.
func Need(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(dirVariable)
	need.That(t, dir != "", os.Getenv(whyVariable))
	return dir
}

// Build puts the three programs and a runtime into dir, as `make` puts them into
// bin.
func Build(dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("engine local is tested as root")
	}
	runc, err := findRunc()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(runc)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "runc"), data, 0o755); err != nil {
		return err
	}
	const cmd = "github.com/proctor-project/proctor/cmd/"
	return Go(dir+"/", cmd+"proctor", cmd+"proctor-sidecar", cmd+"proctor-agent")
}

// Go builds packages as they ship: static.
func Go(out string, packages ...string) error {
	build := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", out}, packages...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	return nil
}

// findRunc looks where `make` puts it, seen from a package two levels down.
func findRunc() (string, error) {
	places := []string{os.Getenv("PROCTOR_RUNC"), "../../bin/runc"}
	if cache, err := os.UserCacheDir(); err == nil {
		places = append(places, filepath.Join(cache, "proctor", "bin", "runc"))
	}
	for _, p := range places {
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return p, nil
		}
	}
	return "", fmt.Errorf("no runc in %q: make bin/runc", places)
}
