package local

import (
	"context"
	"syscall"

	runc "github.com/containerd/go-runc"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/gvisor"
	"github.com/proctor-project/proctor/sandbox/parts"
	"github.com/proctor-project/proctor/sandbox/userns"
)

// invocation runs the runtime's commands for one container.
//
// An ordinary user's go through a user namespace with the user's subordinate
// id, in which the container's own is nested. There the runtime can drop the
// user's supplementary groups, which it otherwise leaves to the container, and
// what it makes the user's launcher can read back from /proc. go-runc has no
// way to start its command in a namespace, so that this is done without it.
type invocation struct {
	path, root, log string
	extra           []string     // runsc's own options
	maps            []userns.Map // nil: run directly
}

// nested says whether an identity needs the namespace around the runtime.
func (e *Engine) nested(id sandbox.Identity) bool { return e.euid != 0 && id.Inside != 0 }

func (e *Engine) invocation(path string, b *bundle) *invocation {
	v := &invocation{path: path, root: e.runtimeRoot(b.spec.Session, b.spec.Runtime), log: b.log()}
	if b.onRunsc() {
		for _, o := range gvisor.Options(b.spec) {
			v.extra = append(v.extra, "--"+o.Name+"="+o.Value)
		}
	}
	if e.nested(b.spec.Identity) {
		v.maps = parts.Maps(b.spec.Identity.Host)
	}
	return v
}

func (v *invocation) direct() *runc.Runc {
	// A command that outlives a killed launcher would go on making what the next
	// one is about to sweep.
	// A terminal's Ctrl-C is the launcher's to act on: in the launcher's process
	// group, a command would be ended half-way.
	return &runc.Runc{PdeathSignal: syscall.SIGKILL, Setpgid: true, Command: v.path, Root: v.root, Log: v.log, LogFormat: runc.JSON, ExtraArgs: v.extra}
}

// inNamespace runs one command of the runtime, with what opts hands over.
func (v *invocation) inNamespace(ctx context.Context, opts *runc.CreateOpts, command ...string) error {
	c := userns.Config{Maps: v.maps, Argv: []string{v.path, "--root", v.root, "--log", v.log, "--log-format", "json"}}
	c.Argv = append(c.Argv, command...)
	if s, ok := opts.IO.(*stdio); ok {
		c.Stdin, c.Stdout, c.Stderr = s.stdin, s.stdout, s.stderr
	}
	return userns.Run(ctx, c)
}

func (v *invocation) create(ctx context.Context, b *bundle, opts *runc.CreateOpts) error {
	if v.maps == nil {
		if !b.onRunsc() {
			// Its work is one thread's, and a session's containers are made two at
			// a time. gVisor's kernel, which serves the payload, would keep it.
			ctx = runc.WithExtraEnv(ctx, "GOMAXPROCS=1")
		}
		return v.direct().Create(ctx, b.spec.Name, b.dir, opts)
	}
	command := []string{"create", "--bundle", b.dir, "--pid-file", opts.PidFile}
	if opts.ConsoleSocket != nil {
		command = append(command, "--console-socket", opts.ConsoleSocket.Path())
	}
	return v.inNamespace(ctx, opts, append(command, b.spec.Name)...)
}

func (v *invocation) start(ctx context.Context, name string) error {
	if v.maps == nil {
		return v.direct().Start(ctx, name)
	}
	return v.inNamespace(ctx, &runc.CreateOpts{}, "start", name)
}

// signal is for a runtime whose first process is not the payload itself.
func (v *invocation) signal(ctx context.Context, name string, s unix.Signal) error {
	return v.direct().Kill(ctx, name, int(s), nil)
}

// remove kills what is left of the container and removes the runtime's state.
func (v *invocation) remove(ctx context.Context, name string) error {
	if v.maps == nil {
		return v.direct().Delete(ctx, name, &runc.DeleteOpts{Force: true})
	}
	return v.inNamespace(ctx, &runc.CreateOpts{}, "delete", "--force", name)
}
