package userns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
)

// roleVariable makes the test binary one of its own helpers.
const roleVariable = "PROCTOR_TEST_USERNS"

func TestMain(m *testing.M) {
	if code, ok := Child(os.Args); ok {
		os.Exit(code)
	}
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "whoami":
		whoami()
	case "open":
		_, err := os.ReadFile(os.Args[1])
		fmt.Println(errors.Is(err, os.ErrPermission), err == nil)
	case "user":
		asUser()
	case "hang":
		fmt.Println(os.Getpid())
		_, _ = os.Stdin.Read(make([]byte, 1))
	case "launcher":
		_ = Run(context.Background(), Config{
			Maps: []Map{{Inside: 0, Host: 1_900_100}}, Argv: []string{exe()}, Env: []string{roleVariable + "=hang"},
			Stdin: os.Stdin, Stdout: os.Stdout,
		})
	}
	os.Exit(0)
}

func exe() string {
	p, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return p
}

// whoami prints what a child is: ids as it sees them, groups, descriptors.
func whoami() {
	groups, _ := os.Getgroups()
	fmt.Printf("ids %d %d %d %d groups %v\n", os.Getuid(), os.Geteuid(), os.Getgid(), os.Getegid(), groups)
	for _, f := range []string{"uid_map", "gid_map"} {
		b, _ := os.ReadFile("/proc/self/" + f)
		fmt.Printf("%s %v\n", f, strings.Fields(string(b)))
	}
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.SplitSeq(string(b), "\n") {
		if strings.HasPrefix(line, "CapEff") || strings.HasPrefix(line, "CapAmb") {
			fmt.Println(strings.Join(strings.Fields(line), " "))
		}
	}
	fmt.Printf("args %q env %q\n", os.Args[1:], os.Environ())
	f := os.NewFile(3, "three")
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
		b := make([]byte, 10)
		n, _ := f.Read(b)
		fmt.Printf("three %q\n", b[:n])
	}
	fmt.Fprintln(os.Stderr, "to stderr")
}

func run(t *testing.T, c Config) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.Env = append(c.Env, roleVariable+"=whoami")
	c.Argv = append([]string{exe()}, c.Argv...)
	err := Run(t.Context(), c)
	return out.String(), err
}

func TestRunAsRootHasOnlyTheMappedIDs(t *testing.T) {
	need.Root(t)
	path := filepath.Join(t.TempDir(), "handed")
	if err := os.WriteFile(path, []byte("over"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	group := uint32(1_900_200)
	out, err := run(t, Config{
		Maps: []Map{{Inside: 0, Host: 1_900_100, Group: &group}, {Inside: 64001, Host: 1_900_101}},
		Argv: []string{"a", "b"}, Env: []string{"X=y"}, ExtraFiles: []*os.File{f},
	})
	if err != nil {
		t.Fatal(err, out)
	}
	for _, want := range []string{
		"ids 0 0 0 0 groups []", "uid_map [0 1900100 1 64001 1900101 1]", "gid_map [0 1900200 1 64001 1900101 1]",
		`args ["a" "b"] env ["X=y" "` + roleVariable + `=whoami"]`, `three "over"`, "to stderr",
	} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("child says\n%s\nwant a line %q", out, want)
		}
	}
}

// The host's files are reached with the mapped ids alone: root's power is gone.
func TestRunAsRootCannotReadOthersFiles(t *testing.T) {
	need.Root(t)
	dir, err := os.MkdirTemp("/tmp", "proctor-userns-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	read := func(owner int) string {
		path := filepath.Join(dir, fmt.Sprint(owner))
		if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, owner, owner); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := Run(t.Context(), Config{
			Maps: []Map{{Inside: 0, Host: 1_900_100}}, Argv: []string{exe(), path}, Env: []string{roleVariable + "=open"}, Stdout: &out,
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
	if got := read(0); got != "true false" {
		t.Errorf("host root's file: refused, read = %s", got)
	}
	if got := read(1_900_100); got != "false true" {
		t.Errorf("the owner's own file: refused, read = %s", got)
	}
}

func TestRunOutcomes(t *testing.T) {
	need.Root(t)
	maps := []Map{{Inside: 0, Host: 1_900_100}}
	var exit *ExitError
	err := Run(t.Context(), Config{Maps: maps, Argv: []string{"/bin/sh", "-c", "exit 3"}})
	if !errors.As(err, &exit) || exit.Code != 3 || exit.Signal != 0 {
		t.Errorf("exit 3 is %v", err)
	}
	err = Run(t.Context(), Config{Maps: maps, Argv: []string{"/bin/sh", "-c", "kill -9 $$"}})
	if !errors.As(err, &exit) || exit.Code != 137 || exit.Signal != unix.SIGKILL {
		t.Errorf("SIGKILL is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, Config{Maps: maps, Argv: []string{"/bin/true"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled is %v", err)
	}
	for name, c := range map[string]Config{
		"no command":    {Maps: maps},
		"relative":      {Maps: maps, Argv: []string{"true"}},
		"no root":       {Maps: []Map{{Inside: 1, Host: 1}}, Argv: []string{"/bin/true"}},
		"mapped twice":  {Maps: []Map{{Inside: 0, Host: 1}, {Inside: 1, Host: 1}}, Argv: []string{"/bin/true"}},
		"missing":       {Maps: maps, Argv: []string{"/nowhere/at/all"}},
		"inside twice":  {Maps: []Map{{Inside: 0, Host: 1}, {Inside: 0, Host: 2}}, Argv: []string{"/bin/true"}},
		"no ids at all": {Argv: []string{"/bin/true"}},
	} {
		if err := Run(t.Context(), c); err == nil || errors.As(err, &exit) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

// A killed launcher leaves no child.
func TestRunDiesWithItsCaller(t *testing.T) {
	need.Root(t)
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	said, say, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe())
	cmd.Env = append(os.Environ(), roleVariable+"=launcher")
	cmd.Stdin, cmd.Stdout = in, say
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	_ = say.Close()
	var pid int
	if _, err := fmt.Fscan(said, &pid); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(10*time.Second/time.Millisecond))
	if err != nil || n != 1 {
		_ = unix.Kill(pid, unix.SIGKILL)
		t.Fatalf("the child still runs: %d, %v", n, err)
	}
}

// asUser is TestOrdinaryUser's other process, as an ordinary user with
// subordinate ids.
func asUser() {
	base := os.Args[1]
	fail := func(err error) {
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
	ctx := context.Background()
	maps := []Map{{Inside: 0, Host: uint32(os.Getuid())}, {Inside: 1, Host: 1_900_300}}
	var out bytes.Buffer
	err := Run(ctx, Config{Maps: maps, Argv: []string{exe()}, Env: []string{roleVariable + "=whoami"}, Stdout: &out, Stderr: &out})
	fmt.Print(out.String())
	fail(err)
	dir := filepath.Join(base, "part")
	fail(os.Mkdir(dir, 0o700))
	fail(Chown(ctx, maps, dir, 1))
	var st unix.Stat_t
	fail(unix.Stat(dir, &st))
	fmt.Println("owner", st.Uid, st.Gid)
	_, err = os.ReadDir(dir)
	fmt.Println("the user may read it:", err == nil)
	fail(Run(ctx, Config{Maps: maps, Argv: []string{"/bin/mkdir", "-p", dir + "/a/b"}}))
	fail(RemoveAll(ctx, maps, dir))
	_, err = os.Stat(dir)
	fmt.Println("gone:", os.IsNotExist(err))
	fail(RemoveAll(ctx, maps, dir))
	err = Run(ctx, Config{Maps: []Map{{Inside: 0, Host: 1_900_300}}, Argv: []string{"/bin/true"}})
	fmt.Println("another's id as root:", err)
	err = Run(ctx, Config{Maps: []Map{maps[0], {Inside: 1, Host: 1_900_400}}, Argv: []string{"/bin/true"}})
	fmt.Println("another's id:", err != nil)
	out.Reset()
	fail(Run(ctx, Config{Maps: maps[:1], Argv: []string{exe()}, Env: []string{roleVariable + "=whoami"}, Stdout: &out}))
	fmt.Print("one: " + out.String())
	fmt.Println("possible:", Possible(ctx))
	for name, as := range map[string][]Map{"own": maps[:1], "another's": {{Inside: 0, Host: 1_900_300}}, "two": maps} {
		out.Reset()
		err := Run(ctx, Config{Maps: as, Argv: []string{exe()}, Env: []string{roleVariable + "=whoami"}, Stdout: &out, AsSelf: true})
		fmt.Println("as self,", name+":", err == nil, strings.HasPrefix(out.String(), fmt.Sprintf("ids %[1]d %[1]d", os.Getuid())))
	}
}

func TestOrdinaryUser(t *testing.T) {
	need.Root(t)
	const uid = 1_900_500
	user := withSubIDs(t, uid, 1_900_300)
	dir, err := os.MkdirTemp("/tmp", "proctor-userns-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self := filepath.Join(dir, "test")
	b, err := os.ReadFile(exe())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chown(dir, uid, uid), os.Chmod(dir, 0o755), os.WriteFile(self, b, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, dir)
	cmd.Dir = "/"
	cmd.Env = []string{roleVariable + "=user", "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{uid, 4}}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", user, err, out)
	}
	for _, want := range []string{
		"ids 0 0 0 0 groups []", "uid_map [0 1900500 1 1 1900300 1]", "gid_map [0 1900500 1 1 1900300 1]",
		"CapAmb: 0000000000000000", "owner 1900300 1900300", "the user may read it: false", "gone: true",
		"another's id: true", "another's id as root: run true in user namespace: an ordinary user's id 0 is the user's own (1900500, not 1900300)",
		"one: ids 0 0 0 0 groups [65534 0]", "possible: true",
		"as self, own: true true", "as self, another's: false false", "as self, two: false false",
	} {
		if !strings.Contains(string(out), want+"\n") {
			t.Errorf("output has no line %q:\n%s", want, out)
		}
	}
}

// withSubIDs gives a user of a test one subordinate id, for the test's time. It
// changes the host's files as useradd does, line by line.
func withSubIDs(t *testing.T, uid, first int) string {
	t.Helper()
	for _, h := range []string{"newuidmap", "newgidmap"} {
		_, err := exec.LookPath(h)
		need.That(t, err == nil, "needs "+h)
	}
	name := fmt.Sprintf("proctor-test-%d", uid)
	lines := map[string]string{
		"/etc/passwd": fmt.Sprintf("%s:x:%d:%d::/:/bin/sh\n", name, uid, uid),
		"/etc/subuid": fmt.Sprintf("%s:%d:1\n", name, first),
		"/etc/subgid": fmt.Sprintf("%s:%d:1\n", name, first),
	}
	for path, line := range lines {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(line); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
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
	return name
}

// TestAsSelf: root never runs without a namespace; TestOrdinaryUser has the others.
func TestAsSelf(t *testing.T) {
	need.Root(t)
	me := Map{Inside: 0, Host: 0}
	if err := Run(t.Context(), Config{Maps: []Map{me}, Argv: []string{"/bin/true"}, AsSelf: true}); err == nil {
		t.Error("root ran something as itself")
	}
}
