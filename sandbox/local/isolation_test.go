package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

func TestExitStatusAndOutput(t *testing.T) {
	h := newHarness(t)
	exit, out := h.run(h.spec("stderr", "hello", "--", "exit", "7"))
	if exit.Code != 7 || exit.Signal != 0 || exit.OOM || exit.Started.IsZero() || !exit.Finished.After(exit.Started) {
		t.Errorf("exit is %+v, want 7", exit)
	}
	want(t, out, "hello", "stderr hello: ok")
	exit, _ = h.run(h.spec("signal", "9", "1", "--", "exit", "0"))
	if exit.Code != 0 {
		t.Errorf("the first process of a pid namespace was killed from within: %+v", exit)
	}
}

func TestReportIsWhatTheKernelHas(t *testing.T) {
	h := newHarness(t)
	stage := h.owned("stage")
	spec := h.spec("wait")
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: stage, Target: "/home/me/product", Writable: true})
	c := h.create(spec, sandbox.Streams{})
	wantReport := sandbox.Report{
		Name: spec.Name, Role: sandbox.RoleAgent, ImageDigest: spec.Image.Digest, HostUID: testAgent, HostGID: testAgent,
		NoNewPrivs: true, Seccomp: true, ReadOnlyRoot: true,
		Namespaces: []string{"pid", "ipc", "net", "uts", "mnt", "cgroup", "user"},
		Mounts: []sandbox.MountReport{
			{Kind: sandbox.MountBind, Source: stage, Target: "/home/me/product", Writable: true, NoSuid: true, NoDev: true},
			{Kind: sandbox.MountBind, Source: filepath.Dir(h.probe), Target: "/probe", NoSuid: true, NoDev: true},
			{Kind: sandbox.MountTmpfs, Target: "/tmp", Writable: true, NoSuid: true, NoDev: true},
		},
		Env: spec.Env, Argv: spec.Argv, Dir: "/", Limits: spec.Limits,
	}
	byTarget := cmpopts.SortSlices(func(a, b sandbox.MountReport) bool { return a.Target < b.Target })
	if d := cmp.Diff(wantReport, c.Report(), byTarget, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
}

// What the running payload really is, read from outside.
func TestPayloadHasNothing(t *testing.T) {
	h := newHarness(t)
	out := newOutput()
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	c := h.create(h.spec("env", "--", "ls", "/", "--", "ls", "/proc/self/fd", "--", "wait"), sandbox.Streams{Stdin: in, Stdout: out, Stderr: out})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	out.await(t, "waiting")
	_ = in.Close()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
	if err != nil {
		t.Fatal(err)
	}
	squeezed := strings.ReplaceAll(string(status), "\t", " ")
	want(t, squeezed,
		fmt.Sprintf("Uid: %[1]d %[1]d %[1]d %[1]d", testAgent), fmt.Sprintf("Gid: %[1]d %[1]d %[1]d %[1]d", testAgent), "Groups:  ",
		"CapInh: 0000000000000000", "CapPrm: 0000000000000000", "CapEff: 0000000000000000", "CapBnd: 0000000000000000",
		"CapAmb: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2")
	for _, line := range strings.Split(out.String(), "\n") {
		if e, ok := strings.CutPrefix(line, "env "); ok && e != "HOME=/tmp" && e != "PATH=/usr/bin:/bin" {
			t.Errorf("environment has %q", e)
		}
		if f, ok := strings.CutPrefix(line, "entry "); ok && strings.HasPrefix(f, ".") {
			t.Errorf("root has %q", f)
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", c.pid, fd.Name()))
		if !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "anon_inode:") {
			t.Errorf("descriptor %s is %s", fd.Name(), to)
		}
	}
	score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", c.pid))
	if err != nil || strings.TrimSpace(string(score)) != "500" {
		t.Errorf("oom_score_adj is %q, %v", score, err)
	}
}

func TestPowersThatAreGone(t *testing.T) {
	h := newHarness(t)
	_, out := h.run(h.spec(
		"unshare", fmt.Sprint(unix.CLONE_NEWUSER), "--", "unshare", fmt.Sprint(unix.CLONE_NEWNS), "--", "clone-user", "--", "io_uring",
		"--", "keyctl", "--", "mount", "/tmp", "--", "remount", "/probe", "--", "umount", "/proc/sys", "--", "setuid", "0", "--", "chroot", "/tmp",
		"--", "sethostname", "x", "--", "append-device", "/tmp/null", "--", "write", "/proc/sys/kernel/hostname", "x",
		"--", "write", "/usr/x", "x", "--", "write", "/x", "x", "--", "write", "/etc/passwd", "x",
		"--", "write", "/dev/x", "x", "--", "write", "/tmp/x", "x", "--", "rlimit", "4", "--", "rlimit", "7", "--", "rlimit", "6"))
	want(t, out,
		fmt.Sprintf("unshare %d: EPERM", unix.CLONE_NEWUSER), fmt.Sprintf("unshare %d: EPERM", unix.CLONE_NEWNS), "clone-user: EPERM",
		"io_uring: EPERM", "keyctl: EPERM", "mount /tmp: EPERM", "remount /probe: EPERM", "umount /proc/sys: EPERM", "chroot /tmp: EPERM",
		"setuid 0: EPERM", "sethostname x: EPERM", "append-device /tmp/null: EPERM", "write /proc/sys/kernel/hostname x: EROFS",
		"write /usr/x x: EROFS", "write /x x: EROFS", "write /etc/passwd x: EROFS",
		"write /dev/x x: EACCES", "rlimit 0 0", "rlimit 256 256", "rlimit 64 64",
		"write /tmp/x x: ok") // the control: the payload can write where it may
}

// Nothing on the host is reached but what is mounted: judged by files that the
// host's own root could read.
func TestHostFilesAreOutOfReach(t *testing.T) {
	h := newHarness(t)
	dir := filepath.Join(h.dir, "canaries")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, owner := range map[string]int{"root": 0, "agent": testAgent, "supervisor": testSuper, "namespace-root": testAgentRoot} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("canary-"+name), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	spec := h.spec("cat", "/c/root", "--", "cat", "/c/supervisor", "--", "cat", "/c/namespace-root", "--", "cat", "/c/agent",
		"--", "ls", h.dir, "--", "signal", "0", fmt.Sprint(os.Getpid()))
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: dir, Target: "/c"})
	_, out := h.run(spec)
	want(t, out, "cat /c/root: EACCES", "cat /c/supervisor: EACCES", "cat /c/namespace-root: EACCES", "canary-agentcat /c/agent: ok",
		"ls "+h.dir+": ENOENT", fmt.Sprintf("signal 0 %d: ESRCH", os.Getpid()))
	for _, secret := range []string{"canary-root", "canary-supervisor", "canary-namespace-root"} {
		if strings.Contains(out, secret) {
			t.Errorf("output has %s", secret)
		}
	}
}

func TestNetwork(t *testing.T) {
	h := newHarness(t)
	_, out := h.run(h.spec("interfaces", "--", "loopback"))
	want(t, out, "interface lo up|loopback|running", "loopback: ok")
	if strings.Count(out, "interface ") != 1 {
		t.Errorf("more than the loopback:\n%s", out)
	}
	// The control: serve, asking for it, has the host's.
	spec := h.supervise(h.spec(), sandbox.RoleServe, "interfaces")
	spec.Network = sandbox.NetworkHost
	c := h.create(spec, sandbox.Streams{})
	if c.Report().Network != sandbox.NetworkHost {
		t.Errorf("report says network %q", c.Report().Network)
	}
	ours, _ := os.Readlink("/proc/self/ns/net")
	his, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", c.pid))
	if err != nil || his != ours {
		t.Errorf("network namespace is %s, want %s (%v)", his, ours, err)
	}
}

func TestHostSocketsAreOutOfReach(t *testing.T) {
	h := newHarness(t)
	spec := h.spec("connect", "/run/docker.sock", "--", "connect", "/var/run/docker.sock", "--", "ls", "/run")
	_, out := h.run(spec)
	want(t, out, "connect /run/docker.sock: ENOENT", "connect /var/run/docker.sock: ENOENT", "ls /run: ok")
}
