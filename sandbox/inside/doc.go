// Package inside is what runs as the first process of agent and check
// containers: it proves the mounts, lays the operator's files over the product,
// connects to the supervisor, carries loopback ports to the supervisor's
// sockets, starts the payload, relays signals, reaps, and
// ends with the payload's status.
//
// It defends against a container that is not what the launcher asked for (a
// read-only mount that takes writes, an overlay that looks empty), against a
// payload that outlives its supervisor, and against the payload reading or
// tracing the first process. It does not decide anything: the payload runs with
// the same identity, so nothing here is believed by the supervisor.
//
//	code := inside.Run(ctx, inside.Config{Argv: []string{"/bin/true"}, Socket: inside.SocketPath})
package inside
