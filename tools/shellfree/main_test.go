package main

import "testing"

func TestShellCalls(t *testing.T) {
	for call, want := range map[string]int{
		`exec.Command("sh", "-c", x)`:                  1,
		`exec.CommandContext(ctx, "/bin/bash", "-c")`:  1,
		`exec.Command("busybox", "sh", "-c", x)`:       1,
		`unix.Exec("/bin/sh", argv, env)`:              1,
		`exec.Command("show", "a")`:                    0,
		`exec.Command(name, args...)`:                  0,
		`display.Command("proctor", "run", "--", cmd)`: 0,
		`fmt.Println("sh")`:                            0,
	} {
		found, err := shellCalls("x.go", "package x\n\nfunc f() { "+call+" }\n")
		if err != nil || len(found) != want {
			t.Errorf("%s: %v, %v", call, found, err)
		}
	}
}
