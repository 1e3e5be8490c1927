// Command proctor-agent is the first process of agent and check containers,
// and the agent's way to ask its supervisor.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
