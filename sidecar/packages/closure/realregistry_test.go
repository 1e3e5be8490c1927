package closure

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/packages"
)

// TestRealRegistryClosure compares a closure with the lock file that the host's
// npm writes for the same package now, member by member: optional members and
// those of other platforms included.
func TestRealRegistryClosure(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "npm", "config", "get", "registry").Output()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("npm is needed: %v", err)
		}
		t.Skipf("npm is needed: %v", err)
	}
	c, err := packages.NewClient(packages.Config{Registry: strings.TrimSpace(string(out)), MaxDocument: MaxDocument})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"@modelcontextprotocol/server-filesystem", "chokidar", "esbuild"} {
		t.Run(name, func(t *testing.T) {
			root, err := c.Resolve(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			members, err := Resolve(t.Context(), c, root, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(start)
			dir := t.TempDir()
			project := `{"name":"p","version":"1.0.0","dependencies":{"` + name + `":"` + root.Version + `"}}`
			if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(project), 0o600); err != nil {
				t.Fatal(err)
			}
			npm := exec.CommandContext(t.Context(), "npm", "install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund")
			npm.Dir = dir
			if out, err := npm.CombinedOutput(); err != nil {
				t.Fatalf("npm: %v: %s", err, out)
			}
			data, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
			if err != nil {
				t.Fatal(err)
			}
			want := locked(t, data, c.Registry())
			if d := difference(specs(members), want); d != "" {
				t.Error(d)
			}
			t.Logf("%s: %d members in %v", root.Spec(), len(members), took)
		})
	}
}
