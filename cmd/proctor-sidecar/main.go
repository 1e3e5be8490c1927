// Command proctor-sidecar is the supervisor: each of its verbs is one step of a
// session, or one of the operator's verbs, inside a container of its own.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
