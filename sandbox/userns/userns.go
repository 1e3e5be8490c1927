package userns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Map is one id that exists in the namespace, as user and as group.
type Map struct {
	Inside uint32 // the id in the namespace, of both
	Host   uint32 // the host's user, and group unless Group is set
	Group  *uint32
}

func (m Map) group() uint32 {
	if m.Group != nil {
		return *m.Group
	}
	return m.Host
}

// Config is one command in a namespace.
type Config struct {
	// Maps are the namespace's ids. Inside 0 must be there: it is who the
	// command starts as. For an ordinary user that must be the user's own ids.
	Maps []Map
	// Argv is the command; Argv[0] is an absolute path. It is opened by the
	// caller, so the mapped ids need not be able to reach it.
	Argv []string
	Env  []string // the whole environment; nil is empty
	Dir  string   // working directory; "" is /
	// A nil Stdin is empty, nil outputs are discarded. An *os.File is handed
	// over as it is.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// ExtraFiles are the descriptors 3 and up.
	ExtraFiles []*os.File
	// AsSelf runs the command as the caller, without a namespace: for an ordinary
	// user whose own ids are the only ones of Maps, in a container that has none.
	AsSelf bool
}

// ExitError is a command that ran and did not return 0.
type ExitError struct {
	Command string
	Code    int // 128+signal when a signal ended it
	Signal  syscall.Signal
}

func (e *ExitError) Error() string {
	if e.Signal != 0 {
		return fmt.Sprintf("%s: ended by signal %d (%s)", e.Command, int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("%s: exit status %d", e.Command, e.Code)
}

// stopGrace is how long a command has after its context ended, between SIGTERM
// and SIGKILL.
const stopGrace = 2 * time.Second

// Run runs the command and waits for it and for its output. The command is
// killed when the calling process ends. A command that returns anything but 0
// is an *ExitError; a context that ended is the context's error.
func Run(ctx context.Context, c Config) error {
	if err := c.validate(); err != nil {
		return err
	}
	bin, err := os.OpenFile(c.Argv[0], unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("run in user namespace: %w", err)
	}
	defer bin.Close()
	switch {
	case c.AsSelf:
		err = runAsSelf(ctx, c, bin)
	case os.Geteuid() == 0:
		err = runAsRoot(ctx, c, bin)
	default:
		err = runAsUser(ctx, c, bin)
	}
	return c.outcome(ctx, err)
}

func (c Config) validate() error {
	if len(c.Argv) == 0 || !filepath.IsAbs(c.Argv[0]) {
		return errors.New("run in user namespace: the command is not an absolute path")
	}
	root := false
	inside, uids, gids := map[uint32]bool{}, map[uint32]bool{}, map[uint32]bool{}
	for _, m := range c.Maps {
		if inside[m.Inside] || uids[m.Host] || gids[m.group()] {
			return fmt.Errorf("run in user namespace: an id of %+v is mapped twice", m)
		}
		inside[m.Inside], uids[m.Host], gids[m.group()] = true, true, true
		root = root || m.Inside == 0
	}
	if !root {
		return errors.New("run in user namespace: no id is mapped to 0")
	}
	return nil
}

// outcome turns an error of os/exec into this package's.
func (c Config) outcome(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	name := filepath.Base(c.Argv[0])
	if ctx.Err() != nil {
		return fmt.Errorf("run %s in user namespace: %w", name, context.Cause(ctx))
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("run %s in user namespace: %w", name, err)
	}
	st, ok := exit.Sys().(syscall.WaitStatus)
	if ok && st.Signaled() {
		return &ExitError{Command: name, Code: 128 + int(st.Signal()), Signal: st.Signal()}
	}
	return &ExitError{Command: name, Code: exit.ExitCode()}
}

// command is what both ways of running share. The program is the descriptor
// after the caller's own, so that no directory on its path is searched with the
// namespace's ids.
func (c Config) command(ctx context.Context, bin *os.File) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/fd/"+strconv.Itoa(3+len(c.ExtraFiles)))
	cmd.Args = c.Argv
	cmd.Env = c.Env
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	cmd.Dir = c.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.ExtraFiles = append(append([]*os.File{}, c.ExtraFiles...), bin)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = stopGrace
	return cmd
}

func runAsRoot(ctx context.Context, c Config, bin *os.File) error {
	cmd := c.command(ctx, bin)
	var uids, gids []syscall.SysProcIDMap
	for _, m := range c.Maps {
		uids = append(uids, syscall.SysProcIDMap{ContainerID: int(m.Inside), HostID: int(m.Host), Size: 1})
		gids = append(gids, syscall.SysProcIDMap{ContainerID: int(m.Inside), HostID: int(m.group()), Size: 1})
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:                 unix.CLONE_NEWUSER,
		UidMappings:                uids,
		GidMappings:                gids,
		GidMappingsEnableSetgroups: true,
		// With no Groups, the launcher's supplementary groups are dropped.
		Credential: &syscall.Credential{Uid: 0, Gid: 0},
	}
	return runTied(cmd)
}
