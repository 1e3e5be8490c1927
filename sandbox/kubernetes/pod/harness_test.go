//go:build kubernetes

package pod_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/programs"
)

func TestMain(m *testing.M) { os.Exit(programs.Main(m, buildAll)) }

func buildAll(dir string) error {
	if err := programs.Build(dir); err != nil {
		return err
	}
	return programs.Go(filepath.Join(dir, "hostile"), "github.com/proctor-project/proctor/sandbox/sandboxtest/hostile")
}
