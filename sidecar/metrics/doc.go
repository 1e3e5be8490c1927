// Package metrics counts what the doors do, for Prometheus: questions by door and
// outcome, how long they took, bytes each way, and the process itself. Every
// label's values are a closed set: nothing that an agent chooses becomes one.
//
// The numbers are served on a Unix socket in the session's part of control, which
// only the supervisor's containers have.
//
//	m := metrics.New()
//	m.Observe("proxy", "allowed", took, out, in)
//	err := m.Serve(ctx, listener)
package metrics
