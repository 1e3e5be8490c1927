package userns

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// runTied runs a program that is killed with this process. The kernel sends
// the signal when the *thread* that started the child ends (prctl(2),
// PR_SET_PDEATHSIG), so the thread is kept until the child is gone.
//
// The program is in a process group of its own: a terminal's Ctrl-C is this
// process's to act on. The child enters it only when its ids are mapped; until
// then, and from then on, the interrupt is blocked in it.
func runTied(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = true
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, interrupt unix.Sigset_t
	interrupt.Val[0] = 1 << (unix.SIGINT - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &interrupt, &before); err != nil {
		return err
	}
	err := cmd.Start()
	maskErr := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	if err == nil {
		err = cmd.Wait()
	}
	return errors.Join(err, maskErr)
}
