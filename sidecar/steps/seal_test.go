package steps_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

const (
	notSaid  = "the launcher did not say how the reader ended; nothing is sealed"
	moreSaid = "more than how the reader ended follows its stream; nothing is sealed"
)

// TestReaderThatLies: a reader that dies, stalls into its end, breaks the
// framing or says more than a stream, and a launcher that does not live to see
// how it ended.
func TestReaderThatLies(t *testing.T) {
	cases := []struct {
		name            string
		lie             func(o *opened, in *sealInput)
		refused, unsure string
	}{
		{name: "none", lie: func(*opened, *sealInput) {}},
		{name: "dies in the middle, and so does the launcher", lie: func(_ *opened, in *sealInput) {
			in.stream, in.outcome = in.stream[:len(in.stream)/2], nil
		}, unsure: "the audit did not finish: "},
		{name: "dies in the middle", lie: func(_ *opened, in *sealInput) {
			in.stream, in.outcome.Exit, in.outcome.Error = in.stream[:len(in.stream)/2], 137, "killed"
		}, unsure: "the audit did not finish: "},
		{name: "writes nothing", lie: func(_ *opened, in *sealInput) {
			in.stream, in.outcome.Exit = nil, 137
		}, unsure: "the audit did not finish: "},
		{name: "dies after its stream", lie: func(_ *opened, in *sealInput) {
			in.outcome.Exit, in.outcome.Error = 137, "killed"
		}, unsure: "the reader did not end well: killed"},
		{name: "ends badly without a word", lie: func(_ *opened, in *sealInput) {
			in.outcome.Exit = 3
		}, unsure: "the reader did not end well: "},
		{name: "changes a byte of a frame's length", lie: func(_ *opened, in *sealInput) {
			in.stream = bytes.Clone(in.stream)
			in.stream[1] ^= 0x40
		}, unsure: "the audit did not finish: "},
		{name: "changes a byte of an entry", lie: func(_ *opened, in *sealInput) {
			in.stream = bytes.Replace(in.stream, []byte("a.txt"), []byte("b.txt"), 1)
		}, unsure: "the audit did not finish: "},
		{name: "writes two streams", lie: func(_ *opened, in *sealInput) {
			in.stream = append(bytes.Clone(in.stream), in.stream...)
		}, refused: notSaid},
		{name: "adds bytes", lie: func(_ *opened, in *sealInput) {
			in.stream = append(bytes.Clone(in.stream), "x\n"...)
		}, refused: notSaid},
		{name: "says itself how it ended", lie: func(o *opened, in *sealInput) {
			in.stream = append(bytes.Clone(in.stream), o.line(in.outcome)...)
			in.outcome = &wire.ReadOutcome{Schema: "proctor/read/v1", Exit: 137, Containers: []wire.Container{}}
		}, refused: moreSaid},
		{name: "and the launcher is killed before its word", lie: func(_ *opened, in *sealInput) {
			in.outcome = nil
		}, refused: notSaid},
		{name: "and the launcher's word is another document", lie: func(_ *opened, in *sealInput) {
			in.outcome.Schema = "proctor/read/v2"
		}, refused: notSaid},
		{name: "and the launcher's word is followed by more", lie: func(_ *opened, in *sealInput) {
			in.after = []byte("\n")
		}, refused: moreSaid},
		{name: "sends another tree's stream", lie: func(o *opened, in *sealInput) {
			_, in.stream = o.tree(map[string]string{"a.txt": "two\n", "test.sh": "exit 0\n"})
		}, unsure: "the product changed while the checks ran"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := newControl(t).open("aaaaaaaaaaaa")
			in := o.input()
			c.lie(o, &in)
			reply, p, err := o.seal(in)
			switch {
			case c.refused != "":
				o.refused(err, c.refused, "")
				o.pass(o.input()) // nothing was spoilt
			case err != nil:
				t.Fatal(err)
			case c.unsure == "" && reply.Verdict != "PASS", c.unsure != "" && (reply.Verdict != "INDETERMINATE" || !hasPrefix(p.Reasons, c.unsure)):
				t.Errorf("verdict %s %q, want %q", reply.Verdict, p.Reasons, c.unsure)
			}
		})
	}
}

// TestLauncherThatLies: what the launcher says of the agent and the checks is
// held against the policy that was opened.
func TestLauncherThatLies(t *testing.T) {
	cases := []struct {
		name    string
		lie     func(in *sealInput)
		verdict string
		reason  string
	}{
		{"nothing", func(*sealInput) {}, "PASS", ""},
		{"a check of another command", func(in *sealInput) { in.req.Checks[0].Argv = []string{"true"} }, "INDETERMINATE", "check unit could not be run: lost"},
		{"a check of a longer command", func(in *sealInput) { in.req.Checks[0].Argv = append(in.req.Checks[0].Argv, "-n") }, "INDETERMINATE", "check unit could not be run: lost"},
		{"a check that may fail", func(in *sealInput) { in.req.Checks[0].Exit, in.req.Checks[0].Expect = 1, 1 }, "INDETERMINATE", "check unit could not be run: lost"},
		{"a check of another name", func(in *sealInput) { in.req.Checks[0].Name = "unix" }, "INDETERMINATE", "check unit could not be run: lost"},
		{"no check", func(in *sealInput) { in.req.Checks = []wire.Process{} }, "INDETERMINATE", "check unit could not be run: lost"},
		{"a check seen from inside", func(in *sealInput) { in.req.Checks[0].Reported = "inside" }, "INDETERMINATE", "check unit was reported from inside, and the policy does not accept that"},
		{"a check that did not start", func(in *sealInput) { in.req.Checks[0].Outcome = "start-failed" }, "INDETERMINATE", "check unit could not be run: start-failed"},
		{"an unknown outcome", func(in *sealInput) { in.req.Checks[0].Outcome = "fine" }, "INDETERMINATE", "check unit could not be run: fine"},
		{"a check without memory, with the expected status", func(in *sealInput) { in.req.Checks[0].Outcome = "oom" }, "FAIL", "check unit failed: oom"},
		{"a check out of time, with the expected status", func(in *sealInput) { in.req.Checks[0].Outcome = "timeout" }, "FAIL", "check unit failed: timeout"},
		{"a check that printed too much, with the expected status", func(in *sealInput) { in.req.Checks[0].Outcome = "overflow" }, "FAIL", "check unit failed: overflow"},
		{"a check that failed", func(in *sealInput) { in.req.Checks[0].Exit = 1 }, "FAIL", "check unit failed: exit 1"},
		{"no agent", func(in *sealInput) { in.req.Agent = nil }, "INDETERMINATE", "how the agent ended is not known"},
		{"no tree before the checks", func(in *sealInput) { in.req.BeforeChecks = "" }, "INDETERMINATE", "the product changed while the checks ran"},
		{"another tree before the checks", func(in *sealInput) { in.req.BeforeChecks = strings.Repeat("0", 64) }, "INDETERMINATE", "the product changed while the checks ran"},
		{"a problem", func(in *sealInput) { in.req.Problems = []string{"serve is gone"} }, "INDETERMINATE", "serve is gone"},
		{"another user of the stage", func(in *sealInput) { in.req.Quiescence = []string{"container x"} }, "INDETERMINATE", "the product was still in use when the agent was gone: container x"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := newControl(t).open("aaaaaaaaaaaa")
			in := o.input()
			c.lie(&in)
			reply, p, err := o.seal(in)
			if err != nil || reply.Verdict != c.verdict || c.reason != "" && !hasPrefix(p.Reasons, c.reason) {
				t.Fatalf("%v: verdict %s %q, want %s with %q", err, reply.Verdict, p.Reasons, c.verdict, c.reason)
			}
			// The same session, told better: an audit takes the facts of its seal.
			better := o.input()
			better.req.Again, better.req.Anchor = true, &o.anchor
			again, p, err := o.seal(better)
			if err != nil || again.Verdict != c.verdict {
				t.Errorf("again: %v: verdict %s %q, want %s", err, again.Verdict, p.Reasons, c.verdict)
			}
		})
	}
}

// TestSealIsAskedForOnce: a second seal needs `again`, a first one must not have it.
func TestSealIsAskedForOnce(t *testing.T) {
	o := newControl(t).open("aaaaaaaaaaaa")
	in := o.input()
	in.req.Again = true
	_, _, err := o.seal(in)
	o.refused(err, "session aaaaaaaaaaaa has no seal to start from", "")
	o.pass(o.input())
	_, _, err = o.seal(o.input())
	var r *steps.RefusedError
	if !errors.As(err, &r) || r.Error() != "session aaaaaaaaaaaa is sealed already" || r.Hint != "proctor audit aaaaaaaaaaaa" {
		t.Errorf("a second seal: %v", err)
	}
	if s := o.sealed(); s.Number != 1 || s.Verdict != "PASS" {
		t.Errorf("the ledger has %+v", s)
	}
	other := o.open("bbbbbbbbbbbb")
	in = other.input()
	in.req.Session = o.id
	if _, _, err = other.sealIn(other.layout, in); !errors.As(err, &r) || !strings.HasPrefix(r.Error(), "read session: ") {
		t.Errorf("a session in another's part: %v", err)
	}
}

// TestK6AuditAgain: only the ledger is new. What was missing for want of a
// reader may come later; a new approval counts and is named; one taken back
// counts no longer; other bytes, or another seal in its place, are noticed.
func TestK6AuditAgain(t *testing.T) {
	again := func(o *opened, stream []byte) (wire.SealReply, []string, int) {
		t.Helper()
		in := o.input()
		in.req.Again, in.stream = true, stream
		reply, p, err := o.seal(in)
		o.must(err)
		return reply, p.Reasons, len(p.Approvals)
	}
	t.Run("only the reader was missing", func(t *testing.T) {
		o := newControl(t).open("aaaaaaaaaaaa")
		in := o.input()
		in.stream, in.outcome.Exit = in.stream[:40], 137
		first, _, err := o.seal(in)
		o.must(err)
		second, why, _ := again(o, o.before)
		if first.Verdict != "INDETERMINATE" || second.Verdict != "PASS" || second.Number != 2 {
			t.Errorf("%s, then seal %d %s %q", first.Verdict, second.Number, second.Verdict, why)
		}
	})
	t.Run("approvals", func(t *testing.T) {
		o := newControl(t).open("aaaaaaaaaaaa")
		const hook = "#!/bin/sh\necho hook\n"
		dir, stream := o.tree(map[string]string{"a.txt": "one\n", "test.sh": "exit 0\n", ".envrc": hook})
		in := o.input()
		in.stream, in.req.BeforeChecks = stream, o.digest(dir)
		first, p, err := o.seal(in)
		o.must(err)
		if first.Verdict != "FAIL" || len(p.Findings) != 1 {
			t.Fatalf("%s %q, %d findings", first.Verdict, p.Reasons, len(p.Findings))
		}
		if r, _, _ := again(o, stream); r.Verdict != "FAIL" {
			t.Errorf("the same again: %s", r.Verdict)
		}
		o.act(ledger.KindApprove, "/home/me/site/.envrc", hook)
		if r, why, n := again(o, stream); r.Verdict != "PASS" || n != 1 {
			t.Errorf("approved: %s %q, %d approvals named", r.Verdict, why, n)
		}
		o.act(ledger.KindRevoke, "/home/me/site/.envrc", "")
		if r, _, n := again(o, stream); r.Verdict != "FAIL" || n != 0 {
			t.Errorf("taken back: %s, %d approvals named", r.Verdict, n)
		}
	})
	t.Run("other bytes", func(t *testing.T) {
		o := newControl(t).open("aaaaaaaaaaaa")
		o.pass(o.input())
		_, stream := o.tree(map[string]string{"a.txt": "two\n", "test.sh": "exit 0\n"})
		r, why, _ := again(o, stream)
		if r.Verdict != "INDETERMINATE" || !hasPrefix(why, "the product is not the one that was sealed before") {
			t.Errorf("%s %q", r.Verdict, why)
		}
	})
	t.Run("another seal in its place", func(t *testing.T) {
		c := newControl(t)
		o, other := c.open("aaaaaaaaaaaa"), c.open("bbbbbbbbbbbb")
		in := o.input()
		in.req.Checks[0].Exit = 1
		if r, _, err := o.seal(in); err != nil || r.Verdict != "FAIL" {
			t.Fatal(r.Verdict, err)
		}
		other.pass(other.input())
		o.must(os.Rename(other.path("seal-1.json"), o.path("seal-1.json")))
		in = o.input()
		in.req.Again = true
		_, _, err := o.seal(in)
		var r *steps.RefusedError
		if !errors.As(err, &r) || r.Error() != "the session's seal is not the one in the ledger" {
			t.Errorf("%v", err)
		}
	})
}

func (c *control) digest(dir string) string {
	c.Helper()
	var out bytes.Buffer
	c.must(steps.ReadDigest(c.Context(), dir, product.Limits{}, &out))
	var d wire.ReadDigest
	c.decode(out.Bytes(), &d)
	return d.Tree
}

// act does one of the operator's acts, with the ledger's keys.
func (c *control) act(kind ledger.Kind, path, content string) {
	c.Helper()
	p := ledger.NewPath(path)
	if kind == ledger.KindApprove {
		sum := sha256.Sum256([]byte(content))
		p.SHA256, p.Decision = hex.EncodeToString(sum[:]), ledger.Approved
	}
	c.actOn(kind, p)
}

// expiring approves until a moment.
func (c *control) expiring(path, content string, until time.Time) {
	c.Helper()
	p := ledger.NewPath(path)
	sum := sha256.Sum256([]byte(content))
	until = until.UTC()
	p.SHA256, p.Decision, p.Expires = hex.EncodeToString(sum[:]), ledger.Approved, &until
	c.actOn(ledger.KindApprove, p)
}

func (c *control) actOn(kind ledger.Kind, p ledger.PathAct) {
	c.Helper()
	l, signer := c.openLedger()
	defer func() { _ = l.Close() }()
	acted, err := l.Act(c.Context(), signer, ledger.Entry{Time: time.Now(), By: "tester", Kind: kind, Path: &p})
	c.must(err)
	c.anchor.Count, c.anchor.Hash = acted.Anchor.Count, acted.Anchor.Hash
}

// openLedger is the ledger as the operator's verbs have it.
func (c *control) openLedger() (*ledger.Ledger, *keys.Signer) {
	c.Helper()
	lk, err := keys.OpenLedgerKeys(c.layout.LedgerKeys, safedir.Rules{})
	c.must(err)
	v, err := lk.Verifier()
	c.must(err)
	l, err := ledger.Open(c.layout.Ledger, safedir.Rules{}, ledger.Trust{ControlID: lk.Chain().ControlID(), Verifier: v})
	c.must(err)
	return l, lk.Signer()
}

// state is the ledger's of now.
func (c *control) state() *ledger.State {
	c.Helper()
	l, _ := c.openLedger()
	defer func() { _ = l.Close() }()
	s, err := l.View()
	c.must(err)
	return s
}

// TestRotation: an ordinary rotation in the middle of a session is fine; a key
// that was declared compromised seals nothing that it opened.
func TestRotation(t *testing.T) {
	for reason, want := range map[keys.Reason]string{keys.Routine: "", keys.Leaked: "the key was declared compromised"} {
		o := newControl(t).open("aaaaaaaaaaaa")
		var out bytes.Buffer
		o.must(steps.Rotate(context.Background(), o.layout, reason, "tester", &out))
		reply, p, err := o.seal(o.input())
		if want == "" {
			if err != nil || reply.Verdict != "PASS" || p.OpenedIn != 1 || p.SealedIn != 2 {
				t.Errorf("%s: %v: %s, opened in %d, sealed in %d", reason, err, reply.Verdict, p.OpenedIn, p.SealedIn)
			}
			continue
		}
		o.refused(err, want, "")
		next := o.open("bbbbbbbbbbbb") // the new key goes on
		next.pass(next.input())
	}
}

// TestK8Anchor: at open and at seal, control must be the one that the launcher
// remembers, or a later moment of it.
func TestK8Anchor(t *testing.T) {
	const restore = "proctor control accept-restore"
	older := func(c *control) {
		c.Helper()
		copyDir(c, c.dir+"/older", c.layout.Ledger)
	}
	foreign := func(c *control) {
		c.Helper()
		other := newControl(c)
		copyDir(c, other.layout.Ledger, c.layout.Ledger)
		copyDir(c, other.layout.RootKeys, c.layout.RootKeys)
	}
	empty := func(c *control) {
		c.Helper()
		c.must(os.RemoveAll(c.layout.Ledger))
		c.must(os.Mkdir(c.layout.Ledger, 0o700))
	}
	cases := []struct {
		name         string
		swap         func(*control)
		reason, hint string
	}{
		{"the same", func(*control) {}, "", ""},
		{"an older ledger", older, "the ledger is older than, or another than, the one that was known here", restore},
		{"another control", foreign, "public key chain is not valid", restore},
		{"an empty control", empty, "the ledger is older than, or another than, the one that was known here", restore},
		{"another ledger under the same keys", func(c *control) {
			c.Helper()
			copyDir(c, newControl(c).layout.Ledger, c.layout.Ledger)
		}, "ledger", ""},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c := newControl(t)
			copyDir(t, c.layout.Ledger, c.dir+"/older")
			o := c.open("aaaaaaaaaaaa")
			k.swap(c)
			_, _, sealErr := o.seal(o.input())
			_, openErr := c.tryOpen(c.openRequest("bbbbbbbbbbbb", plainPolicy), o.before)
			for step, err := range map[string]error{"seal": sealErr, "open": openErr} {
				var r *steps.RefusedError
				switch {
				case k.reason == "" && err != nil:
					t.Errorf("%s: %v", step, err)
				case k.reason != "" && (!errors.As(err, &r) || !strings.Contains(r.Error(), k.reason) || k.hint != "" && r.Hint != k.hint):
					t.Errorf("%s: %v, want a refusal with %q", step, err, k.reason)
				}
			}
		})
	}
}

// TestSealAfterAFloodOfQuestions: an agent that uses up the record's space
// silences the door, not the verdict.
func TestSealAfterAFloodOfQuestions(t *testing.T) {
	o := newControl(t).open("aaaaaaaaaaaa")
	in := o.input()
	in.req.RecordHead = o.fill()
	in.req.Agent.Output, in.req.Checks[0].Output = strings.Repeat("x", 4<<10), strings.Repeat("x", 4<<10)
	o.pass(in)
	for range 3 {
		in.req.Again, in.req.Anchor = true, &o.anchor
		o.pass(in)
	}
}

// TestInitGoesOnWhereItWasKilled: a root key without a ledger, and both without
// anything in them, are what an init that was killed leaves. A ledger in use is
// not touched.
func TestInitGoesOnWhereItWasKilled(t *testing.T) {
	c := newControl(t)
	again := func() error {
		var out bytes.Buffer
		err := steps.Init(t.Context(), c.layout, "tester", &out)
		if err == nil {
			var reply wire.KeysReply
			c.decode(out.Bytes(), &reply)
			c.anchor = reply.Anchor
		}
		return err
	}
	if err := again(); err != nil {
		t.Errorf("with its first act only: %v", err)
	}
	for _, name := range []string{"head", "ledger"} {
		c.must(os.Remove(filepath.Join(c.layout.Ledger, name)))
	}
	if err := again(); err != nil {
		t.Errorf("without a ledger: %v", err)
	}
	c.open("abcdefghij23")
	if err := again(); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("in use: %v", err)
	}
}
