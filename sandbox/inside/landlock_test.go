package inside

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

const helperMode = "PROCTOR_INSIDE_HELPER"

// What the attacking child ends with.
const (
	tracedParent    = 7
	signalledParent = 8
	fencedOff       = 9
)

// TestHelperProcess is the child of TestFence, and of nothing else.
func TestHelperProcess(t *testing.T) {
	switch os.Getenv(helperMode) {
	case "fence":
		_ = os.Setenv(helperMode, "attack")
		fmt.Fprintln(os.Stderr, Fence([]string{os.Args[0], "-test.run=^TestHelperProcess$"}))
		os.Exit(1)
	case "attack":
		os.Exit(attack(os.Getppid()))
	}
}

// attack tries what a hostile product would do to the driver that started it.
func attack(parent int) int {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", parent), os.O_RDWR, 0)
	if err == nil {
		_ = f.Close()
		return tracedParent
	}
	if err := unix.Kill(parent, 0); err == nil {
		return signalledParent
	}
	return fencedOff
}

// TestFence: without the fence a child writes into its parent's memory; behind
// it the child can neither trace nor signal its parent.
func TestFence(t *testing.T) {
	for mode, want := range map[string]int{"attack": tracedParent, "fence": fencedOff} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHelperProcess$")
		cmd.Env = append(os.Environ(), helperMode+"="+mode)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != want {
			t.Errorf("%s: %v, want status %d\n%s", mode, err, want, out)
		}
	}
}
