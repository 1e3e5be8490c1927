package keys_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys"
)

// TestHarden runs itself in a child, which reports what the kernel says.
func TestHarden(t *testing.T) {
	if os.Getenv("PROCTOR_TEST_HARDEN") == "1" {
		if err := keys.Harden(); err != nil {
			t.Fatal(err)
		}
		d, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		var l unix.Rlimit
		if err2 := unix.Getrlimit(unix.RLIMIT_CORE, &l); err != nil || err2 != nil || d != 0 || l.Cur != 0 || l.Max != 0 {
			t.Fatalf("dumpable %d, core %d/%d, %v %v", d, l.Cur, l.Max, err, err2)
		}
		t.Log("hardened")
		return
	}
	if d, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || d == 0 {
		t.Fatalf("positive control: dumpable is %d before, %v", d, err)
	}
	c := exec.Command(os.Args[0], "-test.run=^TestHarden$", "-test.v")
	c.Env = append(os.Environ(), "PROCTOR_TEST_HARDEN=1")
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "hardened") {
		t.Fatalf("%v: %s", err, out)
	}
}
