package launch_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// fillScript runs sessions with control on a small file system of its own, in a
// mount namespace of its own, that has less and less room. It prints one line a
// session: what was free in KiB, the exit status, how often it said PASS, why.
const fillScript = `
set -u
proctor=$1; shift
mv home/control home/kept && mkdir -m 700 home/control
mount -t tmpfs -o size=64m,mode=0700 none home/control && cp -a home/kept/. home/control/ || exit 99
for free in "$@"; do
	have=$(df --output=avail -k home/control | tail -n 1)
	dd if=/dev/zero of=home/control/filler bs=1k count=$((have - free)) 2>/dev/null || exit 98
	"$proctor" --home home run --engine local --product site -- true > out 2>&1
	echo "run $free $? $(grep -c '^PASS' out) $(grep -E 'error:|exit 3' out | head -n 1)"
	rm home/control/filler
	"$proctor" --home home keys list > out 2>&1 || { echo "control does not verify:"; cat out; }
	"$proctor" --home home sessions prune > out 2>&1 || { echo "prune:"; cat out; }
done
`

// TestFullFileSystem (invariant 10): where control has no room, a session is
// refused or INDETERMINATE, and control verifies afterwards.
func TestFullFileSystem(t *testing.T) {
	d := newDesk(t)
	free := []string{"40000", "0", "16384", "16500", "40000"}
	cmd := exec.Command("sh", append([]string{"-c", fillScript, "sh", filepath.Join(d.programs, "bin", "proctor")}, free...)...)
	cmd.Dir = d.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	t.Logf("%s", out)
	if strings.Contains(string(out), "control does not verify") || strings.Contains(string(out), "prune:") {
		t.Error("control does not verify, or cannot be used any more")
	}
	lines := regexp.MustCompile(`(?m)^run (\d+) (\d+) (\d+) `).FindAllStringSubmatch(string(out), -1)
	if len(lines) != len(free) {
		t.Fatalf("%d sessions", len(lines))
	}
	for i, l := range lines {
		room := i == 0 || i == len(lines)-1
		got := l[2] + " " + l[3]
		if room && got != "0 1" || !room && got != "2 0" && got != "3 0" {
			t.Errorf("with %s KiB free: ended with %s, and said PASS %s times", l[1], l[2], l[3])
		}
	}
}
