package main

import (
	"flag"
	"os"
	"testing"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/programs"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write docs/cli.md")
	if how := os.Getenv(crashVariable); how != "" {
		crashed(how)
	}
	os.Exit(programs.Main(m, programs.Build))
}
