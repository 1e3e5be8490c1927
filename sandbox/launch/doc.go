// Package launch runs one session on an engine: stage, open, serve, the agent,
// quiesce, checks, audit, seal. It starts and ends containers in the right
// order and carries bytes between them; it decides nothing about the product
// and parses nothing of the stage.
//
// It defends against a step that hangs, floods or lies about its end, against
// an agent that leaves something behind, and against its own death: every
// container's life hangs on a pipe that this process holds. It does not defend
// against whoever runs it.
//
//	l, err := launch.New(launch.Config{Engine: engine, Home: h, ...})
//	result, err := l.Run(ctx, plan, progress)
package launch
