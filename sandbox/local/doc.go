// Package local runs containers without a daemon: it writes an OCI bundle for
// each sandbox.Spec, has a pinned runc create it, reads back from the kernel
// what was really made, and only then lets the payload start.
//
// It defends against a runtime that silently gives less than was asked (every
// security property is read from /proc of the created process, not from the
// Spec), and against a container that outlives its session: nothing of a
// removed container is left, neither process, mount, cgroup nor file.
//
// It does not defend against a hole in the kernel that all containers share
// (use the runtime runsc), nor against the user who runs the launcher.
//
// Every container has a user namespace of its own. Inside it the ids are 0
// (the namespace's root, that no process of the container is) and the
// Identity's; no other host id is reachable.
//
//	eng, err := local.New(local.Config{Home: home, State: "/run/proctor"})
//	img, err := eng.Resolve(ctx, sandbox.Image{Kind: sandbox.ImageSupervisor, Ref: sidecar})
//	c, err := eng.Create(ctx, spec, sandbox.Streams{Stdout: out})
//	defer c.Remove(ctx)
//	err = c.Start(ctx)
//	exit, err := c.Wait(ctx)
package local
