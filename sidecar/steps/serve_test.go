package steps_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/sidecar/record"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// TestK7ServeThatLies: whatever the step that talks to the agent leaves in its
// part of control, there is no PASS; the same session without the lie passes.
func TestK7ServeThatLies(t *testing.T) {
	cases := []struct {
		name    string
		lie     func(o *opened, in *sealInput)
		refused string // nothing is sealed
		unsure  string // sealed as INDETERMINATE, with this reason
	}{
		{name: "none", lie: func(*opened, *sealInput) {}},
		{name: "rows that say PASS", lie: func(o *opened, in *sealInput) {
			in.req.RecordHead = o.rows("sealed", "approved")
			in.req.Checks[0].Exit = 1
		}},
		{name: "rows after the head that it told", lie: func(o *opened, _ *sealInput) {
			o.rows("sealed")
		}, unsure: ""},
		{name: "a head that is not its record's", lie: func(o *opened, in *sealInput) {
			in.req.RecordHead = &wire.RecordHead{Count: o.head.Count, MAC: strings.Repeat("0", 64)}
		}, unsure: "the record could not be verified: record, row 3: not the row that the known head is about"},
		{name: "a record that it never closed", lie: func(_ *opened, in *sealInput) {
			in.req.RecordHead = nil
		}, unsure: "the record was not closed"},
		{name: "a row as another step", lie: func(o *opened, in *sealInput) {
			in.req.RecordHead = o.rowsAs("open", "opened")
		}, unsure: "the record could not be verified: record, row 4: its MAC is not right"},
		{name: "a row as the seal step", lie: func(o *opened, in *sealInput) {
			in.req.RecordHead = o.rowsAs("seal", "audited")
		}, unsure: "the record could not be verified: record, row 4: its MAC is not right"},
		{name: "nonsense for a row", lie: func(o *opened, _ *sealInput) {
			o.appendTo("record", "nonsense\n")
		}, unsure: "the record could not be verified: record, row 4: no MAC"},
		{name: "half a row", lie: func(o *opened, _ *sealInput) {
			o.appendTo("record", `{"seq":4`)
		}, unsure: "the record could not be verified: record, row 4: torn"},
		{name: "no record", lie: func(o *opened, _ *sealInput) {
			o.must(os.Remove(o.path("record")))
		}, unsure: "the record could not be verified: "},
		{name: "no session file", lie: func(o *opened, _ *sealInput) {
			o.must(os.Remove(o.path("session.json")))
		}, refused: "read session: "},
		{name: "another session's file", lie: func(o *opened, _ *sealInput) {
			other := o.open("bbbbbbbbbbbb")
			o.must(os.Rename(other.path("session.json"), o.path("session.json")))
		}, refused: "read session: "},
		{name: "another session's record", lie: func(o *opened, in *sealInput) {
			other := o.open("bbbbbbbbbbbb")
			o.must(os.Rename(other.path("record"), o.path("record")))
			in.req.RecordHead = other.head
		}, unsure: "the record could not be verified: record, row 1: its MAC is not right"},
		{name: "another policy", lie: func(o *opened, _ *sealInput) {
			o.replace("policy.yaml", "version: 1\n")
		}, refused: "the session's policy is not the one that was opened"},
		{name: "another baseline", lie: func(o *opened, in *sealInput) {
			_, stream := o.tree(map[string]string{"a.txt": "two\n"})
			o.replace("baseline.stream", string(stream))
			in.stream = stream
		}, refused: "the baseline is not the one that was opened"},
		{name: "a FIFO for a baseline", lie: func(o *opened, _ *sealInput) {
			o.must(os.Remove(o.path("baseline.stream")))
			o.must(unix.Mkfifo(o.path("baseline.stream"), 0o600))
		}, refused: "baseline: "},
		{name: "a link for a baseline", lie: func(o *opened, _ *sealInput) {
			o.must(os.Rename(o.path("baseline.stream"), o.path("elsewhere")))
			o.must(os.Symlink("elsewhere", o.path("baseline.stream")))
		}, refused: "baseline: "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := newControl(t).open("aaaaaaaaaaaa")
			in := o.input()
			c.lie(o, &in)
			o.judged(in, c.refused, c.unsure)
		})
	}
}

// judged demands the outcome, and that a second audit makes it no better.
func (o *opened) judged(in sealInput, refused, unsure string) {
	o.Helper()
	reply, p, err := o.seal(in)
	switch {
	case refused != "":
		o.refused(err, refused, "")
		return
	case err != nil:
		o.Fatal(err)
	case unsure != "":
		if reply.Verdict != "INDETERMINATE" || !hasPrefix(p.Reasons, unsure) {
			o.Fatalf("verdict %s %q, want INDETERMINATE with %q", reply.Verdict, p.Reasons, unsure)
		}
	case in.req.Checks[0].Exit != 0:
		if reply.Verdict != "FAIL" {
			o.Fatalf("verdict %s %q, want FAIL", reply.Verdict, p.Reasons)
		}
	default:
		if reply.Verdict != "PASS" {
			o.Fatalf("verdict %s %q, want PASS", reply.Verdict, p.Reasons)
		}
	}
	in.req.Again, in.req.Anchor = true, &o.anchor
	again, p, err := o.seal(in)
	if err != nil || again.Verdict != reply.Verdict || again.Number != 2 {
		o.Errorf("the same again: %v: seal %d %s %q, was %s", err, again.Number, again.Verdict, p.Reasons, reply.Verdict)
	}
}

func hasPrefix(all []string, prefix string) bool {
	for _, s := range all {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

// rowsAs writes a row in the name of another step with the only key that serve has.
func (o *opened) rowsAs(step, kind string) *wire.RecordHead {
	o.Helper()
	key, err := os.ReadFile(o.path("serve.key"))
	o.must(err)
	w, err := record.OpenAppend(o.layout.Session, safedir.Rules{}, record.Config{Session: o.id, Step: step, Key: keys.NewSecret(key)}, nil)
	o.must(err)
	head, err := w.Phase(kind, struct{}{})
	o.must(err)
	o.must(w.Close())
	return &wire.RecordHead{Count: head.Count, MAC: head.MAC}
}

func (o *opened) appendTo(name, text string) {
	o.Helper()
	f, err := os.OpenFile(o.path(name), os.O_APPEND|os.O_WRONLY, 0)
	o.must(err)
	_, err = f.WriteString(text)
	o.must(err)
	o.must(f.Close())
}

func (o *opened) replace(name, text string) {
	o.Helper()
	o.must(os.Remove(o.path(name)))
	o.must(os.WriteFile(o.path(name), []byte(text), 0o600))
}

// TestK7SubkeysOfOneSession: serve's subkey of one session writes no row that
// another session's record accepts, is no key of anything else, and is gone
// after the seal.
func TestK7SubkeysOfOneSession(t *testing.T) {
	c := newControl(t)
	a, b := c.open("aaaaaaaaaaaa"), c.open("bbbbbbbbbbbb")
	ka, err := os.ReadFile(a.path("serve.key"))
	a.must(err)
	kb, err := os.ReadFile(b.path("serve.key"))
	b.must(err)
	if string(ka) == string(kb) {
		t.Fatal("two sessions share a subkey")
	}
	b.must(os.WriteFile(b.path("serve.key"), ka, 0o600))
	in := b.input()
	in.req.RecordHead = b.rows("granted")
	reply, p, err := b.seal(in)
	if err != nil || reply.Verdict != "INDETERMINATE" || !hasPrefix(p.Reasons, "the record could not be verified: record, row 4: its MAC is not right") {
		t.Errorf("%v: verdict %s %q", err, reply.Verdict, p.Reasons)
	}
	a.pass(a.input())
	for _, o := range []*opened{a, b} {
		if _, err := os.Stat(o.path("serve.key")); !os.IsNotExist(err) {
			t.Errorf("%s: serve's subkey after the seal: %v", o.id, err)
		}
	}
	if _, err := a.serve("close\n"); err == nil {
		t.Error("serve starts again after the seal")
	}
}

// TestServeEndsWithoutItsLauncher: input that ends without the word is a lost
// launcher; the record says so, and no "closed" is told.
func TestServeEndsWithoutItsLauncher(t *testing.T) {
	for input, want := range map[string]string{"close\n": "", "": "serve ended early: the launcher is lost", "clos": "serve ended early: the launcher is lost", "end\n": "serve ended early: the launcher is lost"} {
		c := newControl(t)
		_, stream := c.tree(map[string]string{"a": ""})
		if _, err := c.tryOpen(c.openRequest("aaaaaaaaaaaa", plainPolicy), stream); err != nil {
			t.Fatal(err)
		}
		o := &opened{control: c, id: "aaaaaaaaaaaa", layout: c.sessionLayout("aaaaaaaaaaaa")}
		_, err := o.serve(input)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("input %q: %v, want %q", input, err, want)
		}
		b, err := os.ReadFile(filepath.Join(o.layout.Session, "record"))
		o.must(err)
		reason := `"data":{"reason":"the launcher is lost"}`
		if want == "" {
			reason = `"data":{"reason":"close"}`
		}
		if !strings.Contains(string(b), reason) {
			t.Errorf("input %q: the record does not say %s", input, reason)
		}
	}
}
