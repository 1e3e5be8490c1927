package userns

import (
	"os/exec"
	"runtime"
	"syscall"
)

// runTied runs the command so that it dies with this process. The kernel sends
// the signal when the *thread* that started the child ends (prctl(2),
// PR_SET_PDEATHSIG), so the thread is kept until the child is gone.
func runTied(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = true // a terminal's Ctrl-C is the launcher's to act on
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}
