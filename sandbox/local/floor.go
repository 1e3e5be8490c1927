package local

import "github.com/proctor-project/proctor/sandbox"

func runcFloor(version string) string { return sandbox.RuncFloor(version) }
