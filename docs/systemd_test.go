package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
)

// needTool is a program of systemd.
func needTool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	need.That(t, err == nil, "needs "+name)
	return path
}

// TestSystemdUnit holds the unit, its account and its directories against
// systemd's own checks. A directive that is misspelt is seen.
func TestSystemdUnit(t *testing.T) {
	unit := read(t, filepath.Join(root, "deploy/systemd/proctor@.service"))
	if words := verifyUnit(t, unit); words != "" {
		t.Errorf("systemd-analyze verify: %s", words)
	}
	for _, wrong := range []string{"PrivateIPCs=yes", "KillMode=mixt", "MemoryMax=8X"} {
		if words := verifyUnit(t, unit+wrong+"\n"); words == "" {
			t.Errorf("%s: systemd-analyze verify has nothing to say", wrong)
		}
	}
	// What would keep newuidmap, or the containers' own /proc, from working.
	for _, without := range []string{"NoNewPrivileges=yes", "ProtectKernelTunables", "ProtectProc", "ProcSubset", "RestrictNamespaces", "PrivateUsers", "SystemCallFilter", "RestrictSUIDSGID", "ProtectControlGroups", "ProtectKernelLogs", "LockPersonality", "RestrictAddressFamilies", "RestrictRealtime", "SystemCallArchitectures", "ProtectClock", "ProtectHostname", "ProtectKernelModules", "PrivateDevices", "MemoryDenyWriteExecute"} {
		if strings.Contains(unit, "\n"+without) {
			t.Errorf("the unit has %s", without)
		}
	}
}

func verifyUnit(t *testing.T, unit string) string {
	t.Helper()
	analyze := needTool(t, "systemd-analyze")
	// The program is where make install puts it, which is not here.
	path := filepath.Join(t.TempDir(), "proctor@tmp.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(unit, "/usr/local/bin/proctor", "/bin/true")), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(analyze, "verify", "--man=no", path)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestSystemdAccount(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	for _, d := range []string{"etc", "var/lib"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	abs := func(name string) string {
		path, err := filepath.Abs(filepath.Join(root, "deploy/systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, args := range [][]string{
		{"systemd-sysusers", "--root=" + dir, abs("proctor.sysusers")}, {"systemd-tmpfiles", "--create", "--root=" + dir, abs("proctor.tmpfiles")},
	} {
		if out, err := exec.Command(needTool(t, args[0]), args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	if accounts := read(t, filepath.Join(dir, "etc/passwd")); !strings.Contains(accounts, ":Proctor sessions:/var/lib/proctor-sessions:/usr/sbin/nologin") {
		t.Errorf("accounts: %s", accounts)
	}
	for path, mode := range map[string]os.FileMode{"etc/proctor": 0o750, "var/lib/proctor-sessions": 0o700} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}
