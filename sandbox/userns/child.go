package userns

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// The argv[0] by which a program knows that it is a child of this package.
const (
	nameRun    = "proctor-userns-run"    // FD-OF-PROGRAM FD-OF-GATE ARGV...
	nameChown  = "proctor-userns-chown"  // ID; the directory is descriptor 3
	nameRemove = "proctor-userns-remove" // the directory's entries; it is descriptor 3
	nameProbe  = "proctor-userns-probe"  // nothing: that it could be started is the answer
)

// Exit codes of a child that did not get as far as the command.
const (
	exitCannotRun = 125
	exitFailed    = 1
)

// Child does the work of a child of this package and reports true, or reports
// false at once when args are not those of one. A program that calls Run,
// Chown or RemoveAll as an ordinary user calls it first thing in main.
func Child(args []string) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	var err error
	code = exitFailed
	switch args[0] {
	case nameRun:
		err, code = becomeCommand(args[1:]), exitCannotRun
	case nameChown:
		err = chownChild(args[1:])
	case nameRemove:
		err = removeChild()
	case nameProbe:
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "user namespace: %v\n", err)
		return code, true
	}
	return 0, true
}

// becomeCommand waits until the parent has had the namespace's ids mapped, and
// executes the command as the namespace's root. It was started with the ambient
// capabilities for that, because it was executed before it had an id.
func becomeCommand(args []string) error {
	if len(args) < 3 {
		return errors.New("this program is started by proctor itself")
	}
	program, err1 := strconv.Atoi(args[0])
	gate, err2 := strconv.Atoi(args[1])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := passGate(gate); err != nil {
		return err
	}
	// Ids, groups and capabilities are a thread's; the one that executes counts.
	runtime.LockOSThread()
	// In this order: the groups cannot be changed once the capability is gone.
	if err := unix.Setgroups(nil); err != nil {
		return fmt.Errorf("drop groups: %w", err)
	}
	if err := unix.Setresgid(0, 0, 0); err != nil {
		return fmt.Errorf("become the namespace's group: %w", err)
	}
	if err := unix.Setresuid(0, 0, 0); err != nil {
		return fmt.Errorf("become the namespace's root: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	path := "/proc/self/fd/" + strconv.Itoa(program)
	return fmt.Errorf("execute %s: %w", args[2], unix.Exec(path, args[2:], os.Environ()))
}

// passGate reads the one byte that the parent sends when it is done. The end of
// the stream without it is a parent that failed or died.
func passGate(fd int) error {
	gate := os.NewFile(uintptr(fd), "gate")
	if gate == nil {
		return errors.New("no gate")
	}
	defer gate.Close()
	if n, err := gate.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("the parent did not map the ids: %w", err)
	}
	return nil
}

func chownChild(args []string) error {
	if len(args) != 1 {
		return errors.New("chown needs an id")
	}
	id, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil {
		return err
	}
	return unix.Fchownat(3, "", int(id), int(id), unix.AT_EMPTY_PATH)
}

// removeChild removes what is in the directory; the directory itself is the
// parent's, in a directory of the parent's.
func removeChild() error {
	root, err := os.OpenRoot("/proc/self/fd/3/.")
	if err != nil {
		return err
	}
	defer root.Close()
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range names {
		errs = append(errs, root.RemoveAll(n))
	}
	return errors.Join(errs...)
}
