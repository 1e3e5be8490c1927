package userns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// runAsUser runs the command for an ordinary user. One id, the user's own, the
// kernel lets everybody map; groups cannot be dropped then (user_namespaces(7),
// "setgroups"), and the user's own supplementary groups keep their rights.
func runAsUser(ctx context.Context, c Config, bin *os.File) error {
	if err := c.ownRoot(); err != nil {
		return err
	}
	if len(c.Maps) == 1 {
		cmd := c.command(ctx, bin)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
			Credential:  &syscall.Credential{NoSetGroups: true},
		}
		return runTied(cmd)
	}
	return runMapped(ctx, c, bin)
}

// ownRoot refuses an id 0 that is not the caller's own.
func (c Config) ownRoot() error {
	for _, m := range c.Maps {
		if m.Inside == 0 && (m.Host != uint32(os.Geteuid()) || m.group() != uint32(os.Getegid())) {
			return fmt.Errorf("an ordinary user's id 0 is the user's own (%d, not %d)", os.Geteuid(), m.Host)
		}
	}
	return nil
}

// Possible says whether this process can make a user namespace with its own id in
// it. A container's filter may refuse every one.
func Possible(ctx context.Context) bool {
	dir, err := openDir("/")
	if err != nil {
		return false
	}
	defer dir.Close()
	own := uint32(os.Getegid())
	return runSelf(ctx, []Map{{Inside: 0, Host: uint32(os.Geteuid()), Group: &own}}, dir, nameProbe) == nil
}

func runAsSelf(ctx context.Context, c Config, bin *os.File) error {
	if os.Geteuid() == 0 || len(c.Maps) != 1 {
		return errors.New("only an ordinary user with one identity can do without a namespace")
	}
	if err := c.ownRoot(); err != nil {
		return err
	}
	cmd := c.command(ctx, bin)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	return runTied(cmd)
}

// runMapped starts this program again in a namespace without ids, has the
// set-user-ID helpers of the shadow package map them, and lets it go on.
func runMapped(ctx context.Context, c Config, bin *os.File) error {
	wait, gate, err := os.Pipe()
	if err != nil {
		return err
	}
	defer gate.Close()
	cmd := c.command(ctx, bin)
	program := 3 + len(c.ExtraFiles)
	cmd.Path = "/proc/self/exe"
	cmd.Args = append([]string{nameRun, strconv.Itoa(program), strconv.Itoa(program + 1)}, c.Argv...)
	cmd.ExtraFiles = append(cmd.ExtraFiles, wait)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		AmbientCaps: []uintptr{unix.CAP_SETUID, unix.CAP_SETGID},
		Pdeathsig:   syscall.SIGKILL,
		Setpgid:     true, // see runTied
	}
	runtime.LockOSThread() // see runTied
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	_ = wait.Close()
	if err != nil {
		return err
	}
	if err := mapIDs(ctx, cmd.Process.Pid, c.Maps); err != nil {
		_ = gate.Close() // the child sees the end, and ends
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	if _, err := gate.Write([]byte{1}); err != nil && !errors.Is(err, unix.EPIPE) {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	return cmd.Wait()
}

func mapIDs(ctx context.Context, pid int, maps []Map) error {
	uids, gids := []string{strconv.Itoa(pid)}, []string{strconv.Itoa(pid)}
	for _, m := range maps {
		inside := strconv.FormatUint(uint64(m.Inside), 10)
		uids = append(uids, inside, strconv.FormatUint(uint64(m.Host), 10), "1")
		gids = append(gids, inside, strconv.FormatUint(uint64(m.group()), 10), "1")
	}
	// Groups first: newgidmap must see that the process has not been given an id.
	if err := helper(ctx, "newgidmap", gids); err != nil {
		return err
	}
	return helper(ctx, "newuidmap", uids)
}

func helper(ctx context.Context, name string, args []string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("%s (of the package uidmap) is needed to use subordinate ids: %w", name, err)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}
