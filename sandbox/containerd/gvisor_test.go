//go:build gvisor

package containerd_test

import (
	"testing"

	"github.com/proctor-project/proctor/sandbox/sandboxtest"
)

// TestGVisor is the suite with agents and checks on runsc.
func TestGVisor(t *testing.T) { sandboxtest.Run(t, fixture(t, "runsc")) }
