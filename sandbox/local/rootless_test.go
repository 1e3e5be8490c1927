package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

// The ordinary user of these tests, and that user's one subordinate id.
const (
	testUser    = 1_900_600
	testUserSub = 1_900_700
)

// asUser is what the test binary does as an ordinary user: one container with
// the given identity, in which it runs the probe's operations.
func asUser() error {
	place, kind := os.Getenv("PROCTOR_TEST_STATE"), os.Getenv("PROCTOR_TEST_LIE")
	probe := os.Getenv(probeVariable)
	e, err := New(Config{Home: filepath.Join(place, "home"), State: filepath.Join(place, "state"), Runc: os.Getenv("PROCTOR_TEST_RUNC")})
	if err != nil {
		return err
	}
	ctx := context.Background()
	id := sandbox.Identity{Inside: insideAgentID, Host: testUserSub, HostRoot: testUser}
	var waive []sandbox.Waiver
	if kind != "limits" {
		waive = append(waive, sandbox.WaiveNoLimits)
	}
	if strings.HasPrefix(kind, "one") {
		id = sandbox.Identity{Host: testUser, HostRoot: testUser}
	}
	if kind == "one waived" {
		waive = append(waive, sandbox.WaiveOneIdentity)
	}
	if err := e.MakePart(ctx, sandbox.PartLedger, "", id); err != nil {
		return err
	}
	_, err = os.ReadDir(e.Part(sandbox.PartLedger, "").Source)
	fmt.Println("the user reads a part:", err == nil)
	img, err := e.Resolve(ctx, sandbox.Image{Kind: sandbox.ImageSupervisor, Ref: probe})
	if err != nil {
		return err
	}
	ledger := e.Part(sandbox.PartLedger, "")
	ledger.Writable = true
	spec := sandbox.Spec{
		Session: "rootless", Role: sandbox.RoleVerb, Name: "proctor-rootless-verb", Image: img, Dir: "/", Identity: id, Waive: waive,
		Argv: []string{
			"/" + supervisorBinary, "write", "/control/ledger/x", "kept", "--", "write", "/x", "x", "--", "cat", "/control/ledger/x",
			"--", "cat", "/proc/self/uid_map", "--", "cat", "/proc/self/status", "--", "fork", "100", "--", "exit", "6",
		},
		Env: []string{"HOME=/"}, Limits: sandbox.Limits{Memory: 128 << 20, PIDs: 64, MilliCPUs: 2000, OpenFiles: 256}, Mounts: []sandbox.Mount{ledger},
	}
	out := newOutput()
	c, err := e.Create(ctx, spec, sandbox.Streams{Stdout: out, Stderr: out})
	if err != nil {
		return errors.Join(err, e.RemovePart(ctx, sandbox.PartLedger, ""))
	}
	fmt.Printf("report: %d:%d %v %v limits %v\n", c.Report().HostUID, c.Report().HostGID, c.Report().Groups, c.Report().Namespaces, c.Report().Limits)
	if err := c.Start(ctx); err != nil {
		return err
	}
	exit, err := c.Wait(ctx)
	if err := errors.Join(err, c.Remove(ctx)); err != nil {
		return err
	}
	fmt.Printf("%s\nexit %d\n", out, exit.Code)
	if err := e.RemovePart(ctx, sandbox.PartLedger, ""); err != nil {
		return err
	}
	_, err = os.Lstat(e.sessionDir("rootless"))
	fmt.Println("nothing left:", os.IsNotExist(err))
	return nil
}

func TestOrdinaryUser(t *testing.T) {
	h := newHarness(t)
	giveSubID(t)
	run := func(kind string) string {
		place, err := os.MkdirTemp("/tmp", "proctor-local-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(place) })
		self := filepath.Join(place, "test")
		runc := filepath.Join(place, "runc")
		for to, from := range map[string]string{self: os.Args[0], runc: h.engine.cfg.Runc} {
			b, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, b, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Chmod(place, 0o755), os.Chown(place, testUser, testUser)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Dir = "/"
		cmd.Env = []string{
			roleVariable + "=user", "PROCTOR_TEST_LIE=" + kind, "PROCTOR_TEST_STATE=" + place, "PROCTOR_TEST_RUNC=" + runc,
			probeVariable + "=" + h.probe, "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUser, Gid: testUser, Groups: []uint32{testUser, 4}}}
		out, _ := cmd.CombinedOutput()
		return strings.ReplaceAll(string(out), "\t", " ")
	}
	t.Run("subordinate ids", func(t *testing.T) {
		out := run("subids")
		want(t, out, "the user reads a part: false", "write /control/ledger/x kept: ok", "write /x x: EROFS", "keptcat /control/ledger/x: ok",
			"started fewer than 100: true", "exit 6", "nothing left: true", "CapBnd: 0000000000000000", "Groups:  ",
			fmt.Sprintf("report: %[1]d:%[1]d [] [pid ipc net uts mnt cgroup user] limits {0 64 0 256}", testUserSub))
	})
	t.Run("one identity", func(t *testing.T) {
		out := run("one waived")
		want(t, out, "the user reads a part: true", "write /control/ledger/x kept: ok", "exit 6", "nothing left: true", "CapBnd: 0000000000000000")
		if out := run("one"); !strings.Contains(out, "without the waiver one-identity") {
			t.Errorf("without the waiver:\n%s", out)
		}
	})
	t.Run("limits", func(t *testing.T) {
		if out := run("limits"); !strings.Contains(out, "limits that cannot be enforced: memory, cpu") {
			t.Errorf("without the waiver:\n%s", out)
		}
	})
}

// giveSubID gives the test's user one subordinate id for the test's time.
func giveSubID(t *testing.T) {
	t.Helper()
	for _, helper := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(helper); err != nil {
			skip(t, err.Error())
		}
	}
	for path, line := range map[string]string{
		"/etc/passwd": fmt.Sprintf("proctor-test-%[1]d:x:%[1]d:%[1]d::/:/bin/sh\n", testUser),
		"/etc/subuid": fmt.Sprintf("proctor-test-%d:%d:1\n", testUser, testUserSub),
		"/etc/subgid": fmt.Sprintf("proctor-test-%d:%d:1\n", testUser, testUserSub),
	} {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(line)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, []byte(strings.Replace(string(b), line, "", 1)), 0o644)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}
