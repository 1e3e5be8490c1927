// Package docker runs a session's containers through the Docker Engine API,
// over the daemon's Unix socket.
//
// It pulls nothing: the supervisor's image is made here from the launcher's own
// static binary, and every other image must already be there. A container is
// made from an allowlist, inspected after it was created, and removed with a
// *sandbox.RefusedError when the daemon made anything else than what was asked.
// After the start, what the kernel says about the running process (ids,
// capabilities, seccomp, namespaces) is held against the same spec.
//
// It defends against a daemon that silently drops an option (Docker 20.10
// accepts a volume's Subpath and shows the whole volume), against images that
// bring volumes, an environment, an entry point or a user of their own, and
// against mounts that reach an engine socket, the daemon's data or the
// installation's own directories.
//
// It does not defend against the daemon itself: who can talk to the socket is
// root on the host. The agent never can. Binds cannot be nosuid or nodev here;
// no-new-privileges and the device list stand in for that. Where the API is
// older than 1.44, read-only binds are not recursive: submounts are left out of
// the container, and a source that has any is refused.
//
//	engine, err := docker.New(docker.Config{Host: "unix:///run/docker.sock", Supervisor: 64003})
//	if err != nil { ... }
//	defer engine.Close()
//	info, err := engine.Probe(ctx, "")
package docker
