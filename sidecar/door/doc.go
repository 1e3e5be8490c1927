// Package door is what the agent can reach of the supervisor: one HTTP server
// on one Unix socket per role. Which socket a connection came through is who
// asks; peer credentials say nothing across user namespaces.
//
// It defends against slow, oversized, endless and too many requests: each
// answers or ends within its deadline, and one client cannot hold the others.
// Every question is recorded before its answer leaves. It grants nothing that
// the decisions behind it did not.
//
//	d, err := door.New(door.Config{Session: s, Record: record.Append})
//	err = d.Serve(ctx, listener)
package door
