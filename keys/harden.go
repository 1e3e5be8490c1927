package keys

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Harden keeps key bytes from leaving the process by the kernel's hand: no
// core dump, no ptrace and no /proc/PID/mem for processes of the same user.
// It is called before any key is opened.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("harden process: not dumpable: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("harden process: core limit: %w", err)
	}
	return nil
}
