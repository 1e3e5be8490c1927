// Package seccomp has the one system call filter of a container's role, in the
// two forms that engines take: the moby profile that docker reads, and the
// runtime-spec's, filtered for this machine.
//
// The base is moby's default profile without any capability: no new
// namespaces, no mounts, no keyrings, no io_uring, no bpf, no vsock. In the
// roles that run hostile code (agent, check) a call that would give a file a
// setuid or setgid bit is refused with EPERM as well, so that nothing in the
// product can later run on the host with its owner's rights. openat2 answers
// ENOSYS there, because a filter cannot see its mode; programs fall back to
// openat.
//
// Of the machine's architectures only its own is allowed: a 32-bit (or x32)
// program ends with SIGSYS. Those have a second set of system calls, and their
// share of the filter is a quarter of what it costs runc to make a container.
//
// It does not defend against a hole in a system call that is allowed, and it
// does not hide a bit that the file already had: the audit looks for those.
//
//	p, err := seccomp.Linux(sandbox.RoleAgent)
//	json, err := seccomp.Moby(sandbox.RoleAgent)
package seccomp
