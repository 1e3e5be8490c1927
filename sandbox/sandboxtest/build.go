package sandboxtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// payloadPackage is built, never shipped.
const payloadPackage = "github.com/proctor-project/proctor/sandbox/sandboxtest/payload"

const buildDeadline = 5 * time.Minute

// BuildPayload builds the payload for this machine, static, and returns its
// path. Benchmarks use it as well. The file can be read by every user.
func BuildPayload(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), buildDeadline)
	defer cancel()
	path := filepath.Join(t.TempDir(), "payload")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, payloadPackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build payload: %v\n%s", err, out)
	}
	return path
}
