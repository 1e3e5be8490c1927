package seccomp

import (
	"encoding/json"
	"fmt"
	"slices"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox"
)

// setID is the two bits that a hostile container must not set.
const setID = unix.S_ISUID | unix.S_ISGID

// creates is the flags with which open and openat read their mode argument:
// O_CREAT, and O_TMPFILE without the O_DIRECTORY that it always comes with.
// The C library leaves the mode's register as it was without them.
const creates = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// modeCall is a system call that takes permission bits.
type modeCall struct {
	name  string
	mode  uint // index of the mode argument
	flags int  // index of the flags that say whether mode counts, or -1
}

// modeCalls is every call in moby's profile that can give a file its setuid or
// setgid bit and whose mode is in a register.
func modeCalls() []modeCall {
	return []modeCall{
		{"chmod", 1, -1},
		{"fchmod", 1, -1},
		{"fchmodat", 2, -1},
		{"fchmodat2", 2, -1},
		{"creat", 1, -1},
		{"mkdir", 1, -1},
		{"mkdirat", 2, -1},
		{"mknod", 1, -1},
		{"mknodat", 2, -1},
		{"open", 2, 1},
		{"openat", 3, 2},
	}
}

// unseen is the calls whose mode is in memory, where no filter can read it.
func unseen() []string { return []string{"openat2"} }

// profile returns moby's default, tightened for the role.
func profile(role sandbox.Role) *moby.Seccomp {
	p := moby.DefaultProfile()
	for i := range p.ArchMap {
		p.ArchMap[i].SubArches = nil
	}
	if !role.Hostile() {
		return p
	}
	var names []string
	for _, c := range modeCalls() {
		names = append(names, c.name)
	}
	remove(p, append(names, unseen()...))
	for _, c := range modeCalls() {
		for _, args := range c.allowed() {
			p.Syscalls = append(p.Syscalls, &moby.Syscall{
				LinuxSyscall: specs.LinuxSyscall{Names: []string{c.name}, Action: specs.ActAllow, Args: args},
				Comment:      "no setuid or setgid bit",
			})
		}
	}
	nosys := uint(unix.ENOSYS)
	p.Syscalls = append(p.Syscalls, &moby.Syscall{
		LinuxSyscall: specs.LinuxSyscall{Names: unseen(), Action: specs.ActErrno, ErrnoRet: &nosys},
		Comment:      "the mode is in memory",
	})
	return p
}

// remove takes the names out of every rule: a rule that allows a call whatever
// its arguments would win over one with conditions.
func remove(p *moby.Seccomp, names []string) {
	gone := func(n string) bool { return slices.Contains(names, n) }
	for _, s := range p.Syscalls {
		s.Names = slices.DeleteFunc(s.Names, gone)
	}
	p.Syscalls = slices.DeleteFunc(p.Syscalls, func(s *moby.Syscall) bool {
		return len(s.Names) == 0
	})
}

// allowed is the argument conditions, each of which alone allows the call.
func (c modeCall) allowed() [][]specs.LinuxSeccompArg {
	all := [][]specs.LinuxSeccompArg{{none(c.mode, setID)}}
	if c.flags >= 0 {
		all = append(all, []specs.LinuxSeccompArg{none(uint(c.flags), creates)})
	}
	return all
}

// none is true when the argument has none of the bits: (arg & bits) == 0.
func none(index uint, bits uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Op: specs.OpMaskedEqual, Value: bits, ValueTwo: 0}
}

// Moby returns the role's profile as docker reads it (--security-opt
// seccomp=). The engine adapts it to its kernel and architecture.
func Moby(role sandbox.Role) ([]byte, error) {
	b, err := json.Marshal(profile(role))
	if err != nil {
		return nil, fmt.Errorf("write seccomp profile for %s: %w", role, err)
	}
	return b, nil
}

// Linux returns the role's profile for a bundle on this machine, for a process
// without capabilities.
func Linux(role sandbox.Role) (*specs.LinuxSeccomp, error) {
	body, err := Moby(role)
	if err != nil {
		return nil, err
	}
	bare := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
	p, err := moby.LoadProfile(string(body), bare)
	if err != nil {
		return nil, fmt.Errorf("make seccomp profile for %s: %w", role, err)
	}
	return p, nil
}
