// Package mcpserver is the supervisor's ask door in the words of the Model
// Context Protocol: tools with which an agent reads its session, asks for
// decisions, files a request and waits for its answer.
//
// It runs inside the agent's container with the agent's own identity, so it can
// do nothing that the agent could not do by itself over the supervisor's socket:
// it decides nothing, and no message of it can approve anything. Everything that
// it returns is the supervisor's answer.
//
//	err := mcpserver.Run(ctx, inside.SocketPath, stdin, stdout)
package mcpserver
