package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// programsVariable is the directory where TestMain has put the three programs
// and the runtime, as `make` puts them into bin. It is empty where something is
// missing; whyVariable then says what.
const (
	programsVariable = "PROCTOR_TEST_PROGRAMS"
	whyVariable      = "PROCTOR_TEST_WHY"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write docs/cli.md")
	if how := os.Getenv(crashVariable); how != "" {
		crashed(how)
	}
	dir, err := os.MkdirTemp("/tmp", "proctor-cli-")
	if err != nil {
		panic(err)
	}
	set := func(name, value string) {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	if err := programs(dir); err != nil {
		set(whyVariable, err.Error())
	} else {
		set(programsVariable, dir)
	}
	set("GOTMPDIR", dir) // where testscript leaves a directory when only some scripts run
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// programs builds what ships, and puts a runtime beside it.
func programs(dir string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("engine local is tested as root")
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
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
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/",
		"../proctor", "../proctor-sidecar", "../proctor-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	return nil
}

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

// needPrograms is the directory of the programs. Where they cannot be, the test
// is skipped, but never in CI.
func needPrograms(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(programsVariable)
	if dir == "" {
		if os.Getenv("CI") != "" {
			t.Fatal(os.Getenv(whyVariable))
		}
		t.Skip(os.Getenv(whyVariable))
	}
	return dir
}
