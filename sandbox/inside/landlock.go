package inside

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Fence runs a command in a Landlock domain of its own, in place of this
// process: a check's driver starts the product with it. Driver and product have
// one identity, and without the domain the product could write into its
// parent's memory (proc_pid_mem(5)) and end it with any status. From inside a
// domain nothing outside of it can be traced, and, where the kernel knows how
// (Landlock ABI 6, Linux 6.12), signalled.
//
// It returns only an error: a kernel without Landlock runs nothing.
func Fence(argv []string) error {
	path, err := lookPath(argv[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // a domain belongs to a thread, and exec keeps this one's
	if err := enterDomain(); err != nil {
		return fmt.Errorf("fence off %q: %w", argv[0], err)
	}
	return fmt.Errorf("start %q: %w", argv[0], syscall.Exec(path, argv, os.Environ()))
}

// rulesetAttr is struct landlock_ruleset_attr of linux/landlock.h.
type rulesetAttr struct {
	handledFS  uint64
	handledNet uint64
	scoped     uint64
}

// scopeABI is the first ABI with scopes.
const scopeABI = 6

// enterDomain restricts this thread. A ruleset has to handle some access: making
// block devices is one that nothing here can do anyway.
func enterDomain() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("this kernel has no Landlock: %w", errno)
	}
	attr := rulesetAttr{handledFS: unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK}
	size := unsafe.Sizeof(attr.handledFS)
	if abi >= scopeABI {
		attr.scoped, size = unix.LANDLOCK_SCOPE_SIGNAL, unsafe.Sizeof(attr)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make a Landlock ruleset: %w", errno)
	}
	defer func() { _ = unix.Close(int(fd)) }()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errors.Join(errors.New("enter a Landlock domain"), errno)
	}
	return nil
}
