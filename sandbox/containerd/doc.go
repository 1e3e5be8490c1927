// Package containerd runs a session's containers through containerd's own API,
// over the daemon's Unix socket, in a namespace of its own.
//
// It pulls nothing: the supervisor's image is made here from the launcher's own
// static binary and imported, and every other image must already be in the
// namespace. The runtime's configuration is written from an allowlist; nothing
// of containerd's defaults and nothing that an image says of itself is in it.
// The runtime makes the container before its payload may run, and what was made
// is read back: the record that containerd keeps, the configuration that the
// runtime was given, and the kernel's own word on the process (ids,
// capabilities, namespaces, mounts, limits). Any difference is a
// *sandbox.RefusedError, and nothing stays. After the start the kernel is asked
// once more, for what a process takes on only then.
//
// It defends against a daemon, a shim or a runtime that silently gives less
// than was asked, against images that bring links, users or labels of their
// own, and against mounts that reach an engine's socket or data, keys or
// control. It does not defend against a hostile daemon: who can talk to its
// socket is root on the host. The agent never can.
//
// Agents and checks may be gVisor's: the same shim drives runsc, and what is read
// back is what package gvisor says.
//
// containerd has no volumes: keys and control are directories of the
// supervisor's id below Config.Home. The launcher must be root, and on the
// daemon's host, because mounts and pipes are the host's paths.
//
//	engine, err := containerd.New(containerd.Config{Home: home, Supervisor: 64003})
//	if err != nil { ... }
//	defer engine.Close()
//	info, err := engine.Probe(ctx, "")
package containerd
