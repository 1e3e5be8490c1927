// Package steps is what proctor-sidecar does in each of its containers: open,
// serve, seal, the reader, the stage copy, and the operator's verbs. A step
// reads its request, does one thing, writes its answer, and ends.
//
// It defends the holder of the keys against everything that reaches it: requests
// and streams are bounded and strictly read, the step that talks to the agent
// has no key that could sign a verdict, and the step that parses the hostile
// tree has no key at all. It does not defend against the host.
//
//	err := steps.Open(ctx, steps.ContainerLayout(), os.Stdin, os.Stdout)
package steps
