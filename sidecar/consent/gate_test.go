package consent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sidecar/consent"
	"github.com/proctor-project/proctor/sidecar/trust"
)

// judge answers with a reason, and notes what it was asked.
type judge struct {
	reason trust.Reason
	err    error
	asked  []string
	during func()
}

func (j *judge) gate() consent.Gate {
	return consent.Gate{Judge: func(_ context.Context, _ string, content []byte) (trust.Decision, error) {
		j.asked = append(j.asked, string(content))
		if j.during != nil {
			j.during()
		}
		return trust.Decision{Allowed: j.reason == trust.ReasonApproved, Reason: j.reason}, j.err
	}}
}

func file(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "proctor.yaml")
	if err := os.WriteFile(path, []byte("version: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConsentOnlyWithAYes: bytes come back for an approval and for nothing else.
func TestConsentOnlyWithAYes(t *testing.T) {
	path := file(t)
	for reason, remedy := range map[trust.Reason]bool{
		trust.ReasonApproved: false, trust.ReasonNoRecord: true, trust.ReasonChanged: true, trust.ReasonExpired: true,
		trust.ReasonDenied: false, trust.ReasonUnreadable: false,
	} {
		j := &judge{reason: reason}
		data, d := j.gate().ReadAndGate(t.Context(), path, consent.ProductPolicy)
		if d.Allowed != (reason == trust.ReasonApproved) || (data != nil) != d.Allowed || d.Reason != reason || d.Path != path || d.Kind != consent.ProductPolicy {
			t.Errorf("%s: %q, %+v", reason, data, d)
		}
		if (d.Remedy() != "") != remedy || remedy && d.Remedy() != "proctor trust approve "+path {
			t.Errorf("%s: remedy %q", reason, d.Remedy())
		}
		if !d.Allowed && strings.HasSuffix(d.Text(), ": ") {
			t.Errorf("%s has no words: %q", reason, d.Text())
		}
		if len(j.asked) != 1 || j.asked[0] != "version: 1\n" {
			t.Errorf("asked %q", j.asked)
		}
	}
	j := &judge{reason: trust.ReasonApproved, err: errors.New("broken")}
	if data, d := j.gate().ReadAndGate(t.Context(), path, consent.ProductPolicy); data != nil || d.Allowed || d.Reason != trust.ReasonUnreadable {
		t.Errorf("a ledger that cannot be read: %q %+v", data, d)
	}
}

// TestConsentReadsOnce: what is returned is what was judged, also where the file
// is another one by then.
func TestConsentReadsOnce(t *testing.T) {
	path := file(t)
	j := &judge{reason: trust.ReasonApproved, during: func() {
		if err := os.WriteFile(path, []byte("swapped"), 0o644); err != nil {
			t.Error(err)
		}
	}}
	data, d := j.gate().ReadAndGate(t.Context(), path, consent.ProductPolicy)
	if string(data) != "version: 1\n" || !d.Allowed {
		t.Errorf("%q %+v", data, d)
	}
}

func TestConsentUnreadable(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"a FIFO":      func(p string) error { return errors.Join(os.Remove(p), unix.Mkfifo(p, 0o644)) },
		"a directory": func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o755)) },
		"a link": func(p string) error {
			return errors.Join(os.Rename(p, p+".real"), os.Symlink(p+".real", p))
		},
		"too large": func(p string) error { return os.Truncate(p, consent.MaxFile+1) },
		"absent":    os.Remove,
	} {
		path := file(t)
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		j := &judge{reason: trust.ReasonApproved}
		data, d := j.gate().ReadAndGate(t.Context(), path, consent.ProductPolicy)
		if data != nil || d.Allowed || d.Reason != trust.ReasonUnreadable || d.Err == nil || len(j.asked) > 0 {
			t.Errorf("%s: %q, %+v, asked %q", name, data, d, j.asked)
		}
		if d.Absent() != (name == "absent") || d.Remedy() != "" {
			t.Errorf("%s: absent %v, remedy %q", name, d.Absent(), d.Remedy())
		}
	}
}
