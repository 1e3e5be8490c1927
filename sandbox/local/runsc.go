package local

import (
	"os"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/gvisor"
	"github.com/proctor-project/proctor/sandbox/kernel"
)

// onRunsc: gVisor's runsc runs the same bundles.
func (b *bundle) onRunsc() bool { return runtimeName(b.spec.Runtime) == gvisor.Runtime }

// runscPermits refuses what gVisor cannot give here.
func (e *Engine) runscPermits(spec sandbox.Spec) []string {
	problems := gvisor.Refusals(spec)
	if e.euid != 0 {
		problems = append(problems, "runsc needs a launcher that is root")
	}
	return problems
}

func (e *Engine) readRunscState(b *bundle) (gvisor.State, error) {
	return gvisor.ReadState(e.runtimeRoot(b.spec.Session, b.spec.Runtime), b.spec.Name)
}

// readBackRunsc reports what was made. Problems are what can only be judged here.
func (e *Engine) readBackRunsc(b *bundle, pid int) (sandbox.Report, []string, error) {
	r := sandbox.Report{Name: b.spec.Name, Role: b.spec.Role, Runtime: b.spec.Runtime}
	made := gvisor.Made{Spec: b.spec, Config: b.config, Pid: pid, Root: b.rootfs()}
	var err error
	if made.State, err = e.readRunscState(b); err != nil {
		return r, nil, err
	}
	if err := readConfig(b, &r); err != nil {
		return r, nil, err
	}
	if made.Host, err = kernel.Mounts(os.Getpid()); err != nil {
		return r, nil, err
	}
	problems, err := made.ReadBack(&r)
	return r, problems, err
}
