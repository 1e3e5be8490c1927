// Command pause holds a Pod's namespaces open: it waits, and ends when asked.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A first process has no default actions; orphans of a shared namespace are
	// taken by the kernel.
	signal.Ignore(syscall.SIGCHLD)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}
