// Package chain describes a session without a launcher as an ordered list of
// steps, for whatever can start containers one after the other. It is pure: it
// knows no engine, and what renders it (sandbox/compose, sandbox/kubernetes/pod)
// writes down order, mounts and identities from here and nowhere else.
//
//	s := chain.Session{Product: "/srv/site", Policy: policy, Agent: agent, Checks: checks}
//	steps, err := s.Steps()
//	for _, step := range steps { … }
//
// A step says who it is (Who), what it runs (Argv, whole), what it sees (Mounts)
// and after what it starts (After). The list's order keeps every After, so that
// an orchestrator which knows only "one after the other" can go through it. A
// renderer gives each step exactly its mounts, no network, no capability, a
// read-only root, and none of the root key's volume to anybody else; what it
// cannot give it refuses.
//
// Who is not a number of the host's: a renderer picks the least that its
// orchestrator needs for a Stager. The ids of the others are fixed, because
// files in volumes belong to them.
package chain
