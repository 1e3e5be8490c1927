// Command proctor is the operator's command line and the launcher.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/proctor-project/proctor/sandbox/local"
	"github.com/proctor-project/proctor/sandbox/userns"
)

func main() {
	// What is private here says so where it is made, and the other identities have
	// to get through the rest: an umask of 077 would close it to them.
	syscall.Umask(0o022)
	for _, child := range []func([]string) (int, bool){userns.Child, local.Child} {
		if code, ok := child(os.Args); ok {
			os.Exit(code)
		}
	}
	// Whoever reads our output may go away in the middle of a session: writes fail
	// then, and the session goes on to its seal. A signal that is caught, unlike
	// one that is ignored, is back at its default in every child.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(context.Background(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}, os.Getenv))
}
