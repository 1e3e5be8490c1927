package sandboxtest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
)

func (s *suite) testProbe(t *testing.T) {
	info := s.info
	if info.Engine != s.engine.Name() || info.EngineVersion == "" || info.RuntimeFloor == "" || !info.Seccomp {
		t.Errorf("probe says %+v", info)
	}
	_, err := s.engine.Probe(testContext(t), "no-such-runtime")
	var unavailable *sandbox.UnavailableError
	if !errors.As(err, &unavailable) || unavailable.Remedy == "" {
		t.Errorf("probe of an unknown runtime: %v, want an UnavailableError with a remedy", err)
	}
}

func (s *suite) testResolve(t *testing.T) {
	ctx := testContext(t)
	again, err := s.engine.Resolve(ctx, sandbox.Image{Kind: sandbox.ImageSupervisor, Ref: s.payload})
	if err != nil || again != s.supervisor {
		t.Errorf("resolving the same binary again gave %+v, %v; want %+v", again, err, s.supervisor)
	}
	for _, img := range []sandbox.Image{s.supervisor, s.agent} {
		if hex, ok := strings.CutPrefix(img.Digest, "sha256:"); !ok || len(hex) != 64 {
			t.Errorf("image %+v has no sha256 digest", img)
		}
	}
	// One byte more is another image.
	b, err := os.ReadFile(s.payload)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(other, append(b, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := s.engine.Resolve(ctx, sandbox.Image{Kind: sandbox.ImageSupervisor, Ref: other}); err != nil || got.Digest == s.supervisor.Digest {
		t.Errorf("another binary resolved to %+v, %v", got, err)
	}
	// The suite's own is the current one again.
	if _, err := s.engine.Resolve(ctx, sandbox.Image{Kind: sandbox.ImageSupervisor, Ref: s.payload}); err != nil {
		t.Error(err)
	}
	if _, err := s.engine.Resolve(ctx, sandbox.Image{Kind: sandbox.ImageRef, Ref: "proctor-no-such-image:1"}); err == nil {
		t.Error("an image that is not there was resolved")
	}
	if _, err := s.engine.Resolve(ctx, sandbox.Image{Kind: sandbox.ImageSupervisor, Ref: s.payload + "-missing"}); err == nil {
		t.Error("a supervisor binary that is not there was resolved")
	}
}

// testIdentity judges by the host's view of the process, for both identities.
func (s *suite) testIdentity(t *testing.T) {
	for _, role := range []sandbox.Role{sandbox.RoleAgent, sandbox.RoleServe, sandbox.RoleRead} {
		t.Run(string(role), func(t *testing.T) {
			spec := s.spec(role, "wait")
			_, pid := s.ready(t, spec, sandbox.Streams{})
			Confined(t, pid, spec.Identity.Host)
		})
	}
	// The control: the same look at a process that is not contained.
	if own := processStatus(t, os.Getpid()); own["NoNewPrivs"] == "1" && own["Seccomp"] == "2" {
		t.Error("the control: the test's own process is confined, so the host's view proves nothing")
	}
}

// Confined judges the host's view of a process that has the id and no other, but
// for a group that its engine says it shares.
func Confined(t testing.TB, pid int, id uint32, shared ...uint32) {
	t.Helper()
	status, own := processStatus(t, pid), strconv.FormatUint(uint64(id), 10)
	for _, name := range []string{"Uid", "Gid"} {
		if got := status[name]; got != strings.Join([]string{own, own, own, own}, " ") {
			t.Errorf("%s is %q, want four times %s", name, got, own)
		}
	}
	for g := range strings.FieldsSeq(status["Groups"]) {
		if n, err := strconv.ParseUint(g, 10, 32); err != nil || uint32(n) != id && !slices.Contains(shared, uint32(n)) {
			t.Errorf("supplementary groups are %q", status["Groups"])
		}
	}
	for _, name := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if status[name] != "0000000000000000" {
			t.Errorf("%s is %s", name, status[name])
		}
	}
	if status["NoNewPrivs"] != "1" || status["Seccomp"] != "2" {
		t.Errorf("no-new-privileges %s, seccomp %s; want 1 and 2", status["NoNewPrivs"], status["Seccomp"])
	}
}

func (s *suite) testNamespaces(t *testing.T) {
	_, a := s.ready(t, s.spec(sandbox.RoleAgent, "wait"), sandbox.Streams{})
	c, b := s.ready(t, s.spec(sandbox.RoleServe, "wait"), sandbox.Streams{})
	names := []string{"pid", "ipc", "net", "uts", "mnt"}
	if slices.Contains(c.Report().Namespaces, "cgroup") {
		names = append(names, "cgroup")
	}
	if s.info.UserNamespace {
		names = append(names, "user")
	}
	for _, name := range names {
		own := namespace(t, "self", name)
		first, second := namespace(t, strconv.Itoa(a), name), namespace(t, strconv.Itoa(b), name)
		if first == own || second == own || first == second {
			t.Errorf("%s namespaces: host %s, agent %s, supervisor %s", name, own, first, second)
		}
		if !slices.Contains(c.Report().Namespaces, name) {
			t.Errorf("the report does not have the %s namespace", name)
		}
	}
}

// kernelSurface is what no container may do.
func kernelSurface() []op {
	return []op{
		{"mount", "tmpfs", "/tmp"},
		{"mount", "remount", "/"},
		{"unshare", "user"},
		{"unshare", "net"},
		{"setns"},
		{"mknod", "/tmp/disk", "254", "0"},
		{"keyctl"},
		{"userfaultfd"},
		{"bpf"},
		{"io_uring"},
		{"setuid"},
		{"chroot"},
		{"sethostname"},
		{"open", "/proc/kcore"},
		{"open", "/proc/sysrq-trigger"},
		{"write", "/proc/sys/kernel/core_pattern", "|/bin/payload"},
		{"open", "/dev/mem"},
		{"open", "/dev/kmsg"},
		{"open", "/dev/fuse"},
	}
}

func allRefused(t testing.TB, results []attempt) {
	t.Helper()
	for _, r := range results {
		if r.Err == "" || r.Err == "unknown operation" {
			t.Errorf("%s gave %q", r.Op, r.Err)
		}
	}
}

// testKernelSurface tries what a container may not do, and what it may.
func (s *suite) testKernelSurface(t *testing.T) {
	for _, role := range []sandbox.Role{sandbox.RoleAgent, sandbox.RoleServe} {
		t.Run(string(role), func(t *testing.T) {
			spec := s.spec(role)
			spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountTmpfs, Target: "/tmp", Size: 1 << 20, Writable: true}}
			allRefused(t, s.try(t, spec, kernelSurface()...))
			spec = s.spec(role)
			spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountTmpfs, Target: "/tmp", Size: 1 << 20, Writable: true}}
			want(t, s.try(t, spec, op{"write", "/tmp/file", "x"}, op{"read", "/tmp/file"}, op{"open", "/dev/null"}, op{"status"}), "", "", "", "")
		})
	}
	// The control: the host lets its root do some of them.
	if os.Geteuid() == 0 {
		out, err := exec.Command(s.payload, "try", "keyctl", "--", "unshare", "net", "--", "chroot").CombinedOutput()
		if err != nil || strings.Count(string(out), `"err":""`) != 3 {
			t.Errorf("the same outside a container: %v\n%s", err, out)
		}
	}
}

// testSetuid: no file gets a setuid or setgid bit from code that nobody trusts.
// The host's stat is the judge.
func (s *suite) testSetuid(t *testing.T) {
	ops := []op{
		{"write", "/job/file", "x"},
		{"chmod", "chmod", "/job/file", "4755"},
		{"chmod", "fchmod", "/job/file", "4755"},
		{"chmod", "fchmodat", "/job/file", "2755"},
		{"chmod", "fchmodat2", "/job/file", "6755"},
		{"creat", "openat", "/job/openat", "4755"},
		{"creat", "openat2", "/job/openat2", "4755"},
		{"creat", "mknod", "/job/mknod", "4755"},
		{"creat", "mkdir", "/job/mkdir", "2755"},
		{"chmod", "chmod", "/job/file", "755"},
	}
	for _, tc := range []struct {
		role    sandbox.Role
		allowed bool
	}{{sandbox.RoleAgent, false}, {sandbox.RoleServe, true}} {
		t.Run(string(tc.role), func(t *testing.T) {
			spec := s.spec(tc.role)
			dir := s.dir(t, spec.Identity)
			spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: dir, Target: "/job", Writable: true}}
			// The last operation is left out where the bits must be there to see.
			got := s.try(t, spec, ops[:len(ops)-1]...)
			want(t, got, "")
			bits := specialBits(t, dir)
			if tc.allowed {
				// The filter is off here: the attack works.
				if !slices.Contains(bits, "file") || !slices.Contains(bits, "openat") {
					t.Errorf("without the filter only %v have special bits: the test tries nothing", bits)
				}
				return
			}
			if len(bits) > 0 {
				t.Errorf("%v have special bits on the host", bits)
			}
			for _, r := range got[1:] {
				if r.Err == "" && r.Op == "chmod" {
					t.Errorf("%s with a special bit was not refused", r.Op)
				}
			}
			spec = s.spec(tc.role)
			spec.Mounts = []sandbox.Mount{{Kind: sandbox.MountBind, Source: dir, Target: "/job", Writable: true}}
			want(t, s.try(t, spec, ops[len(ops)-1]), "")
		})
	}
}

func specialBits(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			found = append(found, e.Name())
		}
	}
	return found
}

// testSameUserOutside: a process of the same user on the host survives a kill of
// everything that the container can see.
func (s *suite) testSameUserOutside(t *testing.T) {
	need.Root(t)
	// The payload's directory is the test's own; the canary needs its own copy.
	id := s.f.Hostile.Host
	dir := s.dir(t, s.f.Hostile)
	binary := filepath.Join(dir, "canary")
	content, err := os.ReadFile(s.payload)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, content, 0o755); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = exe.Close() }()
	var out bytes.Buffer
	canary := exec.Command("/proc/self/fd/3", "cat")
	canary.ExtraFiles = []*os.File{exe}
	canary.Stdout = &out
	stdin, err := canary.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	canary.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	if err := canary.Start(); err != nil {
		t.Fatal(err)
	}
	spec := s.spec(sandbox.RoleAgent)
	pid := strconv.Itoa(canary.Process.Pid)
	results := s.try(t, spec, op{"killall"}, op{"ptrace", pid}, op{"stat", "/proc/" + pid})
	if results[1].Err == "" || results[2].Err != "ENOENT" {
		t.Errorf("the container sees a process of the host: %+v", results)
	}
	if _, err := stdin.Write([]byte("alive\n")); err != nil {
		t.Errorf("the host's process is gone: %v", err)
	}
	_ = stdin.Close()
	if err := canary.Wait(); err != nil || out.String() != "alive\n" {
		t.Errorf("the host's process ended with %v, having said %q", err, out.String())
	}
	// The control: on the host the same user's kill does reach it.
	if err := s.killOutside(id); err != nil {
		t.Error(err)
	}
}

// killOutside shows that a process of the id can be signalled by another one of
// that id that is not contained.
func (s *suite) killOutside(id uint32) error {
	victim := exec.Command("sleep", "60")
	victim.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	if err := victim.Start(); err != nil {
		return err
	}
	killer := exec.Command("/bin/sh", "-c", "kill -9 "+strconv.Itoa(victim.Process.Pid))
	killer.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	killErr := killer.Run()
	if killErr != nil {
		_ = victim.Process.Kill()
	}
	err := victim.Wait()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.Sys().(syscall.WaitStatus).Signal() == unix.SIGKILL {
		return killErr
	}
	return errors.Join(killErr, errors.New("the control process was not killed"))
}
