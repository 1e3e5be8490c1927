package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls are raw system calls, so that no library stands between the argument
// and the kernel.
func calls(op string, a []string) error {
	switch op {
	case "chmod":
		return raw(unix.SYS_CHMOD, ptr(a[0]), num(a[1]), 0, 0)
	case "fchmod":
		fd, err := unix.Open(a[0], unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return raw(unix.SYS_FCHMOD, uintptr(fd), num(a[1]), 0, 0)
	case "fchmodat":
		return raw(unix.SYS_FCHMODAT, cwd(), ptr(a[0]), num(a[1]), 0)
	case "fchmodat2":
		return raw(unix.SYS_FCHMODAT2, cwd(), ptr(a[0]), num(a[1]), 0)
	case "creat":
		return raw(unix.SYS_CREAT, ptr(a[0]), num(a[1]), 0, 0)
	case "mkdir":
		return raw(unix.SYS_MKDIR, ptr(a[0]), num(a[1]), 0, 0)
	case "mkdirat":
		return raw(unix.SYS_MKDIRAT, cwd(), ptr(a[0]), num(a[1]), 0)
	case "mknod":
		return raw(unix.SYS_MKNOD, ptr(a[0]), num(a[1])|unix.S_IFREG, 0, 0)
	case "mknodat":
		return raw(unix.SYS_MKNODAT, cwd(), ptr(a[0]), num(a[1])|unix.S_IFREG, 0)
	case "open": // path flags mode
		return raw(unix.SYS_OPEN, ptr(a[0]), num(a[1]), num(a[2]), 0)
	case "openat":
		return raw(unix.SYS_OPENAT, cwd(), ptr(a[0]), num(a[1]), num(a[2]))
	case "openat2":
		how := unix.OpenHow{Flags: uint64(number(a[1])), Mode: uint64(number(a[2]))}
		_, err := unix.Openat2(unix.AT_FDCWD, a[0], &how)
		return err
	case "mode":
		var st unix.Stat_t
		if err := unix.Stat(a[0], &st); err != nil {
			return err
		}
		fmt.Printf("mode %04o\n", st.Mode&0o7777)
		return nil
	case "unshare":
		return raw(unix.SYS_UNSHARE, num(a[0]), 0, 0, 0)
	case "clone-user":
		pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if e != 0 {
			return e
		}
		if pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		}
		return nil
	case "io_uring":
		var params [120]byte
		return raw(unix.SYS_IO_URING_SETUP, 8, uintptr(unsafe.Pointer(&params)), 0, 0)
	case "keyctl":
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		return err
	case "mount":
		return unix.Mount("tmpfs", a[0], "tmpfs", 0, "")
	case "remount":
		return unix.Mount("", a[0], "", unix.MS_REMOUNT|unix.MS_BIND, "")
	case "umount":
		return unix.Unmount(a[0], 0)
	case "setuid":
		return raw(unix.SYS_SETUID, num(a[0]), 0, 0, 0)
	case "chroot":
		return unix.Chroot(a[0])
	case "sethostname":
		return unix.Sethostname([]byte(a[0]))
	case "exec":
		return unix.Exec(a[0], a, os.Environ())
	case "rlimit":
		var l unix.Rlimit
		if err := unix.Getrlimit(number(a[0]), &l); err != nil {
			return err
		}
		fmt.Printf("rlimit %d %d\n", l.Cur, l.Max)
		return nil
	}
	return fmt.Errorf("no such operation")
}

func raw(call, a, b, c, d uintptr) error {
	if _, _, e := unix.Syscall6(call, a, b, c, d, 0, 0); e != 0 {
		return e
	}
	return nil
}

func ptr(s string) uintptr {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err)
	}
	keep = append(keep, p)
	return uintptr(unsafe.Pointer(p))
}

// keep holds what raw calls point to: the collector does not move it, and must
// not free it.
var keep []*byte

func num(s string) uintptr { return uintptr(number(s)) }

func cwd() uintptr { at := unix.AT_FDCWD; return uintptr(at) }
