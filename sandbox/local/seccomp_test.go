package local

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// modeOps gives a file in /p each of the bits by each call that takes a mode.
func modeOps(mode uint32) (ops, names []string) {
	n := 0
	add := func(format string, args ...any) {
		op := fmt.Sprintf(format, args...)
		names = append(names, op)
		n++
	}
	flags := unix.O_CREAT | unix.O_WRONLY | unix.O_EXCL
	for _, call := range []string{"chmod", "fchmod", "fchmodat", "fchmodat2"} {
		add("%s /p/there %#o", call, mode)
	}
	for _, call := range []string{"creat", "mkdir", "mkdirat", "mknod", "mknodat"} {
		add("%s /p/new-%s-%o %#o", call, call, mode, mode)
	}
	for _, call := range []string{"open", "openat"} {
		add("%s /p/new-%s-%o %#x %#o", call, call, mode, flags, mode)
		add("%s /p %#x %#o", call, unix.O_TMPFILE|unix.O_WRONLY, mode)
	}
	for i, name := range names {
		if i > 0 {
			ops = append(ops, "--")
		}
		ops = append(ops, fields(name)...)
	}
	return ops, names
}

func TestSetIDBitsAreRefused(t *testing.T) {
	h := newHarness(t)
	runModes := func(spec sandbox.Spec, mode uint32) (names []string, out string) {
		stage := h.owned(fmt.Sprintf("%s-%o", spec.Role, mode))
		there := filepath.Join(stage, "there")
		if err := os.WriteFile(there, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{stage, there} {
			if err := os.Chown(p, int(spec.Identity.Host), int(spec.Identity.Host)); err != nil {
				t.Fatal(err)
			}
		}
		ops, names := modeOps(mode)
		spec.Argv = append(spec.Argv[:1], ops...)
		spec.Session = sessionName()
		spec.Name = "proctor-" + spec.Session + "-" + string(spec.Role)
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountBind, Source: stage, Target: "/p", Writable: true})
		_, out = h.run(spec)
		return names, out
	}
	for _, mode := range []uint32{0o4755, 0o2755, 0o6755, 0o4000} {
		names, out := runModes(h.spec(), mode)
		for _, n := range names {
			want(t, out, n+": EPERM")
		}
	}
	// Controls: the same calls without the bits, and with them where the filter
	// is moby's own.
	names, out := runModes(h.spec(), 0o1755)
	for _, n := range names {
		want(t, out, n+": ok")
	}
	names, out = runModes(h.supervise(h.spec(), sandbox.RoleSeal), 0o4755)
	for _, n := range names {
		want(t, out, n+": ok")
	}
}

// A register that open(2) does not look at may hold anything.
func TestOpenWithGarbageInTheModeRegister(t *testing.T) {
	h := newHarness(t)
	spec := h.spec("open", "/etc/passwd", "0", "06777", "--", "openat", "/etc/passwd", "0", "0xffffffffffffffff",
		"--", "open", "/tmp", fmt.Sprint(unix.O_DIRECTORY), "06000", "--", "openat2", "/etc/passwd", "0", "0", "--", "cat", "/etc/hosts")
	_, out := h.run(spec)
	want(t, out, "open /etc/passwd 0 06777: ok", "openat /etc/passwd 0 0xffffffffffffffff: ok",
		fmt.Sprintf("open /tmp %d 06000: ok", unix.O_DIRECTORY), "openat2 /etc/passwd 0 0: ENOSYS", "cat /etc/hosts: ok")
	_, out = h.run(h.supervise(h.spec(), sandbox.RoleSeal, "openat2", "/proc", "0", "0"))
	want(t, out, "openat2 /proc 0 0: ok")
}
