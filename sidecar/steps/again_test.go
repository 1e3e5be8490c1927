package steps_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// TestK6OtherBytesStayOther: a tree that is not the one that was sealed does not
// become it by being audited twice, nor by an audit in between that could read
// nothing; the tree itself does, after such an audit.
func TestK6OtherBytesStayOther(t *testing.T) {
	audit := func(o *opened, stream []byte, exit int) (string, []string) {
		t.Helper()
		in := o.input()
		in.req.Again, in.stream, in.outcome.Exit = true, stream, exit
		reply, p, err := o.seal(in)
		o.must(err)
		return reply.Verdict, p.Reasons
	}
	begin := func() (o *opened, other []byte) {
		t.Helper()
		o = newControl(t).openWith("aaaaaaaaaaaa", "version: 1\n")
		in := o.input()
		in.req.Checks, in.req.BeforeChecks = []wire.Process{}, ""
		o.pass(in)
		_, other = o.tree(map[string]string{"a.txt": "two\n", "test.sh": "exit 0\n"})
		return o, other
	}
	const want = "the product is not the one that was sealed before"
	t.Run("twice", func(t *testing.T) {
		o, other := begin()
		for n := range 3 {
			if v, why := audit(o, other, 0); v != "INDETERMINATE" || !hasPrefix(why, want) {
				t.Errorf("audit %d of other bytes: %s %q", n, v, why)
			}
		}
	})
	t.Run("after a reader that died", func(t *testing.T) {
		o, other := begin()
		for range 2 {
			if v, why := audit(o, o.before[:40], 137); v != "INDETERMINATE" {
				t.Errorf("without a stream: %s %q", v, why)
			}
		}
		if v, why := audit(o, other, 0); v != "INDETERMINATE" || !hasPrefix(why, want) {
			t.Errorf("other bytes: %s %q", v, why)
		}
	})
	t.Run("the same bytes after a reader that died", func(t *testing.T) {
		o, _ := begin()
		audit(o, o.before[:40], 137)
		if v, why := audit(o, o.before, 0); v != "PASS" {
			t.Errorf("%s %q", v, why)
		}
	})
}

// TestB12CheckApply: only the session's newest seal, only PASS, and only while
// every approval that it relied on holds.
func TestB12CheckApply(t *testing.T) {
	const path, hook = "/home/me/site/.envrc", "#!/bin/sh\necho hook\n"
	begin := func() (*opened, func(reason string)) {
		t.Helper()
		o := newControl(t).open("aaaaaaaaaaaa")
		dir, stream := o.tree(map[string]string{"a.txt": "one\n", "test.sh": "exit 0\n", ".envrc": hook})
		o.act(ledger.KindApprove, path, hook)
		in := o.input()
		in.stream, in.req.BeforeChecks = stream, o.digest(dir)
		reply, p, err := o.seal(in)
		if err != nil || reply.Verdict != "PASS" || len(p.Approvals) != 1 {
			t.Fatalf("%v: %s %q", err, reply.Verdict, p.Reasons)
		}
		return o, func(reason string) {
			t.Helper()
			var out bytes.Buffer
			err := steps.CheckApply(t.Context(), o.layout, bytes.NewReader(reply.Seal), &out)
			var r *steps.RefusedError
			if reason == "" && err != nil || reason != "" && (!errors.As(err, &r) || !strings.Contains(r.Error(), reason) || r.Hint != "proctor audit aaaaaaaaaaaa") {
				t.Errorf("%v, want %q", err, reason)
			}
		}
	}
	const gone = "does not hold any longer"
	for name, c := range map[string]struct {
		then   func(o *opened)
		reason string
	}{
		"nothing since":        {func(*opened) {}, ""},
		"another path's act":   {func(o *opened) { o.act(ledger.KindApprove, "/home/me/site/other", "x") }, ""},
		"revoked":              {func(o *opened) { o.act(ledger.KindRevoke, path, "") }, gone},
		"other bytes approved": {func(o *opened) { o.act(ledger.KindApprove, path, "other") }, gone},
		"approved again":       {func(o *opened) { o.act(ledger.KindApprove, path, hook) }, gone},
		"a newer seal": {func(o *opened) {
			o.act(ledger.KindRevoke, path, "")
			in := o.input()
			in.req.Again = true
			_, _, err := o.seal(in)
			o.must(err)
		}, "this is not the session's newest seal"},
	} {
		t.Run(name, func(t *testing.T) {
			o, check := begin()
			c.then(o)
			check(c.reason)
		})
	}
	t.Run("expired", func(t *testing.T) {
		// A slow machine may not seal within the approval's time: then again
		// with more of it.
		var (
			o       *opened
			reply   wire.SealReply
			expires time.Time
		)
		for wait := 2 * time.Second; reply.Verdict != "PASS"; wait *= 4 {
			if wait > time.Minute {
				t.Fatal("not sealed within a minute")
			}
			o = newControl(t).open("aaaaaaaaaaaa")
			dir, stream := o.tree(map[string]string{"a.txt": "one\n", "test.sh": "exit 0\n", ".envrc": hook})
			expires = time.Now().Add(wait)
			o.expiring(path, hook, expires)
			in := o.input()
			in.stream, in.req.BeforeChecks = stream, o.digest(dir)
			var err error
			reply, _, err = o.seal(in)
			o.must(err)
		}
		<-time.After(time.Until(expires))
		var out bytes.Buffer
		if err := steps.CheckApply(t.Context(), o.layout, bytes.NewReader(reply.Seal), &out); err == nil || !strings.Contains(err.Error(), gone) {
			t.Errorf("after the approval's end: %v", err)
		}
	})
	t.Run("FAIL", func(t *testing.T) {
		o := newControl(t).open("aaaaaaaaaaaa")
		in := o.input()
		in.req.Checks[0].Exit = 1
		reply, _, err := o.seal(in)
		o.must(err)
		var out bytes.Buffer
		if err := steps.CheckApply(t.Context(), o.layout, bytes.NewReader(reply.Seal), &out); err == nil || err.Error() != "the seal says FAIL" {
			t.Errorf("%v", err)
		}
	})
}
