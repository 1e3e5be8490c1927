// Command proctor is the operator's command line and the launcher.
package main

import (
	"context"
	"os"

	"github.com/proctor-project/proctor/sandbox/userns"
)

func main() {
	if code, ok := userns.Child(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(run(context.Background(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}, os.Getenv))
}
