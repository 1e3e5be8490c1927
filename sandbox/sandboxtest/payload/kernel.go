package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// status tells what the kernel says of this process.
func status([]string) (any, error) {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		out[name] = strings.Join(strings.Fields(value), " ")
	}
	for _, name := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		out["ns/"+name], _ = os.Readlink(filepath.Join("/proc/self/ns", name))
	}
	out["hostname"], _ = os.Hostname()
	out["dir"], _ = os.Getwd()
	out["argv"] = os.Args
	return out, nil
}

// environ is the environment as the kernel holds it, in order.
func environ([]string) (any, error) {
	raw, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return nil, err
	}
	env := []string{}
	for kv := range strings.SplitSeq(string(raw), "\x00") {
		if kv != "" {
			env = append(env, kv)
		}
	}
	return env, nil
}

func killall([]string) (any, error) { return nil, unix.Kill(-1, unix.SIGKILL) }

// mount KIND PATH
func mount(args []string) (any, error) {
	if len(args) != 2 {
		return nil, errArguments
	}
	if args[0] == "remount" {
		return nil, unix.Mount("", args[1], "", unix.MS_REMOUNT|unix.MS_BIND, "")
	}
	return nil, unix.Mount("none", args[1], args[0], 0, "")
}

// unshare NAME of: user, mnt, net, pid.
func unshare(args []string) (any, error) {
	flags := map[string]int{"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID}
	if len(args) != 1 || flags[args[0]] == 0 {
		return nil, errArguments
	}
	return nil, unix.Unshare(flags[args[0]])
}

func setns([]string) (any, error) {
	fd, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	return nil, unix.Setns(fd, 0)
}

// mknod PATH MAJOR MINOR makes a block device.
func mknod(args []string) (any, error) {
	if len(args) != 3 {
		return nil, errArguments
	}
	major, err := strconv.ParseUint(args[1], 10, 12)
	if err != nil {
		return nil, err
	}
	minor, err := strconv.ParseUint(args[2], 10, 20)
	if err != nil {
		return nil, err
	}
	return nil, unix.Mknod(args[0], unix.S_IFBLK|0o666, int(unix.Mkdev(uint32(major), uint32(minor))))
}

func keyctl([]string) (any, error) {
	_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
	return nil, err
}

func raw(number uintptr, args ...uintptr) (any, error) {
	args = append(args, 0, 0, 0)
	fd, _, errno := unix.Syscall(number, args[0], args[1], args[2])
	if errno != 0 {
		return nil, errno
	}
	return nil, unix.Close(int(fd))
}

func userfaultfd([]string) (any, error) { return raw(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1) }

func bpf([]string) (any, error) {
	var attr [128]byte
	return raw(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}

func ioUring([]string) (any, error) {
	var params [120]byte
	return raw(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)))
}

// ptrace PID
func ptrace(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errArguments
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, err
	}
	return nil, unix.PtraceSeize(pid)
}

func setuid([]string) (any, error) { return nil, unix.Setuid(0) }

func chroot([]string) (any, error) { return nil, unix.Chroot("/") }

func sethostname([]string) (any, error) { return nil, unix.Sethostname([]byte("x")) }

// memory N touches N bytes.
func memory(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errArguments
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, err
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return n, unix.Munmap(b)
}

// child-memory N does so in a child, and succeeds if the child was killed.
func childMemory(args []string) (any, error) {
	if len(args) != 1 {
		return nil, errArguments
	}
	err := exec.Command("/proc/self/exe", "try", "memory", args[0]).Run()
	if err == nil {
		return "survived", nil
	}
	return err.Error(), nil
}

// files tells how many descriptors can be open, up to 100,000.
func files([]string) (any, error) {
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for len(fds) < 100_000 {
		fd, err := unix.Dup(0)
		if err != nil {
			return len(fds), err
		}
		fds = append(fds, fd)
	}
	return len(fds), nil
}
