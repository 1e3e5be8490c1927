package launch_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sandbox/docker/dockertest"
)

// volume is a part's directory among the daemon's own files.
func (d *desk) volume(daemon *dockertest.Daemon, name string) string {
	d.Helper()
	found, _ := filepath.Glob(filepath.Join(daemon.Root, "volumes", "*"+name, "_data"))
	if len(found) != 1 {
		d.Fatalf("volumes of %s: %q", name, found)
	}
	return found[0]
}

// flip changes one byte of a file: behind the text that is named, so that the
// form stays what it was, or in the middle.
func (d *desk) flip(path, behind string) {
	d.Helper()
	b, err := os.ReadFile(path)
	d.must(err)
	at := len(b) / 2
	if behind != "" {
		if at = bytes.Index(b, []byte(behind)); at < 0 {
			d.Fatalf("%s has no %s", path, behind)
		}
		at += len(behind)
	}
	for b[at] < 'a' || b[at] > 'y' {
		at++
	}
	b[at]++
	d.must(os.WriteFile(path, b, 0o600))
}

// TestDockerControl (invariants 9 and 11): what an agent asks of the supervisor
// becomes no act, and a byte that is changed in a volume's ledger or record, a
// seal that is, and an older ledger that is put back, are noticed.
func TestDockerControl(t *testing.T) {
	d, daemon := newDockerDesk(t)
	verifies := func() (string, bool) {
		out, err := d.proctor("keys", "list").CombinedOutput()
		return string(out), err == nil
	}
	if out, ok := verifies(); !ok { // the control
		t.Fatal(out)
	}
	ledger := d.volume(daemon, "-ledger")
	keep := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(ledger, name))
		d.must(err)
		return b
	}
	put := func(name string, b []byte) {
		t.Helper()
		d.must(os.WriteFile(filepath.Join(ledger, name), b, 0o600))
	}
	older := map[string][]byte{"ledger": keep("ledger"), "head": keep("head")}

	r := d.start("/opt/test/agent", "questions")
	r.await("agent| ready")
	id := r.session()
	d.must(r.cmd.Process.Signal(os.Interrupt))
	r.ends(0)
	if rows := bytes.Count(d.recordOf(daemon, id), []byte(`"kind":"session-asked"`)); rows == 0 {
		t.Error("the agent asked nothing")
	}
	if n := d.acts(); n != 3 { // init, open and seal
		t.Errorf("the ledger has %d acts, want 3", n)
	}

	for name, behind := range map[string]string{"ledger": `"by":"`, "head": ""} {
		whole := keep(name)
		d.flip(filepath.Join(ledger, name), behind)
		if out, ok := verifies(); ok {
			t.Errorf("a changed byte in the %s was not noticed:\n%s", name, out)
		}
		put(name, whole)
		if out, ok := verifies(); !ok {
			t.Fatalf("the %s as it was: %s", name, out)
		}
	}
	newest := map[string][]byte{"ledger": keep("ledger"), "head": keep("head")}
	for name, b := range older {
		put(name, b)
	}
	if out, ok := verifies(); ok || !strings.Contains(out, "older than") {
		t.Errorf("an older ledger was not noticed:\n%s", out)
	}
	for name, b := range newest {
		put(name, b)
	}
	if out, ok := verifies(); !ok {
		t.Fatal(out)
	}
	d.changedSeal(id)
	d.changedRecord(daemon)
}

func (d *desk) recordOf(daemon *dockertest.Daemon, id string) []byte {
	d.Helper()
	b, err := os.ReadFile(filepath.Join(d.volume(daemon, "-session-"+id), "record"))
	d.must(err)
	return b
}

// changedSeal: a byte of it is changed in the launcher's copy.
func (d *desk) changedSeal(id string) {
	d.Helper()
	path := d.path("home/host/seals/" + id + ".json")
	verify := func() ([]byte, error) { return d.proctor("verify", path, "--control").CombinedOutput() }
	if out, err := verify(); err != nil {
		d.Fatalf("%v: %s", err, out)
	}
	whole, err := os.ReadFile(path)
	d.must(err)
	d.flip(path, "")
	if out, err := verify(); err == nil {
		d.Errorf("a changed byte in the seal was not noticed:\n%s", out)
	}
	d.must(os.WriteFile(path, whole, 0o600))
}

// changedRecord: a byte of a session's record is changed while its agent runs.
func (d *desk) changedRecord(daemon *dockertest.Daemon) {
	d.Helper()
	r := d.start("/opt/test/agent", "wait")
	r.await("agent| ready")
	d.flip(filepath.Join(d.volume(daemon, "-session-"+r.session()), "record"), `"kind":"`)
	d.must(r.cmd.Process.Signal(os.Interrupt))
	r.ends(3)
	if text := r.out.String(); !strings.Contains(text, "record") || strings.Contains(text, "PASS") {
		d.Errorf("a changed byte in the record was not noticed:\n%s", text)
	}
}
