package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox/docker/dockertest"
	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// TestTrustOnDocker: where control is an engine's volume, the trust verbs do and
// print the same as where it is a directory.
func TestTrustOnDocker(t *testing.T) {
	d := newDesk(t)
	daemon := dockertest.Start(t)
	benchDocker(t, daemon, sandboxtest.BuildPayload(t))
	proctor := func(want int, args ...string) string {
		t.Helper()
		return d.output(want, append([]string{"--docker-host", daemon.Host}, args...)...)
	}
	proctor(exitOK, "init", "--engine", "docker")
	policy := "version: 1\nagent:\n  engine: docker\n  image: {kind: image, ref: \"proctor-bench:1\"}\n"
	if err := os.WriteFile(filepath.Join(d.dir, "home", "policy.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	envrc := filepath.Join(d.dir, "site", ".envrc")
	run := []string{"run", "--product", "site", "--allow", "runtime-floor", "--quiet", "--", "/payload", "try", "write", envrc, ". ./x"}
	proctor(exitFail, run...)
	s := d.session().Session
	if text := proctor(exitOK, "trust", "show", envrc, "--session", s); !strings.Contains(text, "  | . ./x") || !strings.Contains(text, "record     none") {
		t.Errorf("show:\n%s", text)
	}
	proctor(exitRefused, "trust", "approve", envrc, "--session", s, "--expect-sha256", strings.Repeat("0", 64))
	if text := proctor(exitOK, "trust", "approve", envrc, "--session", s); !strings.HasPrefix(text, "approved "+envrc+" sha256:") {
		t.Errorf("approve: %s", text)
	}
	if text := proctor(exitOK, "audit", s); !strings.Contains(text, "1 approved finding") {
		t.Errorf("audit:\n%s", text)
	}
	var doc trustDocument
	if err := json.Unmarshal([]byte(proctor(exitOK, "trust", "list", "--engine", "docker", "--json")), &doc); err != nil || len(doc.Records) != 1 || doc.Records[0].Path != envrc {
		t.Errorf("%v: %+v", err, doc)
	}
	// The local engine's ledger is another one.
	if text := proctor(exitOK, "trust", "list", "--engine", "local"); text != "" {
		t.Errorf("local: %s", text)
	}
	proctor(exitOK, "trust", "revoke", envrc, "--engine", "docker")
	proctor(exitFail, "trust", "revoke", envrc, "--engine", "docker")
	proctor(exitFail, "audit", s)
	proctor(exitOK, "sessions", "prune")
}
