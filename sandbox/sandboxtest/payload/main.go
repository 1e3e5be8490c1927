// Command payload is what the conformance suite runs inside containers: it
// tries one thing after the other and prints what the kernel said. It is static
// and needs nothing of the image. It is believed only where the suite cannot
// look from outside.
//
//	payload try OP [ARG...] [-- OP [ARG...]]...   prints one JSON list of results
//	payload wait | ignore | cat | drain | flood N | exit N
package main

import (
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		_, _ = fmt.Fprintln(stderr, "payload: no subcommand")
		return 64
	}
	switch name, rest := args[0], args[1:]; name {
	case "try":
		return try(rest, stdout, stderr)
	case "wait":
		return wait(stdout)
	case "ignore":
		return ignore(stdout)
	case "cat":
		return cat(stdin, stdout)
	case "drain":
		return drain(stdin, stdout)
	case "flood":
		return flood(rest, stdout, stderr)
	case "exit":
		return exit(rest)
	case "daemon":
		return daemon(rest, stdout)
	case "beat":
		return beat(rest)
	case "fork":
		return fork(rest, stdout)
	default:
		_, _ = fmt.Fprintf(stderr, "payload: unknown subcommand %q\n", name)
		return 64
	}
}
