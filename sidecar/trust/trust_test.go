package trust_test

import (
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
	"github.com/proctor-project/proctor/sidecar/trust"
)

// book is a ledger with its keys.
type book struct {
	*testing.T
	ledger *ledger.Ledger
	signer *keys.Signer
}

func newBook(t *testing.T) book {
	t.Helper()
	dir := func(name string) string {
		d := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		return d
	}
	root, err := keys.CreateRoot(dir("keys"), safedir.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := root.Verifier(keys.DomainLedger, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := root.Signer(keys.DomainLedger, root.Current(), "")
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := ledger.Create(t.Context(), dir("ledger"), safedir.Rules{}, ledger.Trust{ControlID: root.ControlID(), Verifier: v}, signer, "me", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return book{t, l, signer}
}

func (b book) say(kind ledger.Kind, path, content string, expires *time.Time) {
	b.Helper()
	p := ledger.NewPath(path)
	if kind != ledger.KindRevoke {
		sum := sha256.Sum256([]byte(content))
		p.SHA256, p.Expires = hex.EncodeToString(sum[:]), expires
		p.Decision = map[ledger.Kind]ledger.Decision{ledger.KindApprove: ledger.Approved, ledger.KindDeny: ledger.Denied}[kind]
	}
	if _, err := b.ledger.Act(b.Context(), b.signer, ledger.Entry{Time: time.Now(), By: "me", Kind: kind, Path: &p}); err != nil {
		b.Fatal(err)
	}
}

// TestT1T2T3T5Decide: every reason, in a store that runs on.
func TestT1T2T3T5Decide(t *testing.T) {
	b := newBook(t)
	store := trust.Store{View: b.ledger.View}
	file := filepath.Join(t.TempDir(), ".envrc")
	want := func(content string, reason trust.Reason) {
		t.Helper()
		d := store.Decide(file, sha256.Sum256([]byte(content)))
		if d.Reason != reason || d.Allowed != (reason == trust.ReasonApproved) || store.Approved(file, []byte(content)) != d.Allowed {
			t.Fatalf("%q: %+v, want %s", content, d, reason)
		}
	}
	want("one", trust.ReasonNoRecord) // T2, in an empty store
	b.say(ledger.KindApprove, file, "one", nil)
	b.say(ledger.KindApprove, "/other", "two", nil)
	want("one", trust.ReasonApproved)
	want("onf", trust.ReasonChanged)
	want("two", trust.ReasonChanged) // another path's approval
	if store.Approved("/third", []byte("one")) {
		t.Fatal("another path's content is approved") // T2, in a filled store
	}
	// T3: the supplied bytes decide, whatever the path has by now.
	if err := os.WriteFile(file, []byte("swapped"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("one", trust.ReasonApproved)
	want("swapped", trust.ReasonChanged)
	b.say(ledger.KindApprove, file, "swapped", nil)
	want("one", trust.ReasonChanged)
	b.say(ledger.KindDeny, file, "swapped", nil)
	want("swapped", trust.ReasonDenied)
	want("anything", trust.ReasonDenied)
	b.say(ledger.KindRevoke, file, "", nil)
	want("swapped", trust.ReasonNoRecord)
}

func TestExpiredIsNotApproved(t *testing.T) {
	b := newBook(t)
	until := time.Now().Add(time.Hour)
	b.say(ledger.KindApprove, "/a", "x", &until)
	s, err := b.ledger.View()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("x"))
	if d := trust.Decide(s, "/a", sum, until.Add(-time.Second)); !d.Allowed {
		t.Fatalf("before its end: %+v", d)
	}
	if d := trust.Decide(s, "/a", sum, until); d.Allowed || d.Reason != trust.ReasonExpired {
		t.Fatalf("at its end: %+v", d)
	}
	if d := trust.Decide(s, "/a", sha256.Sum256(nil), until); d.Reason != trust.ReasonChanged {
		t.Fatalf("changed and expired: %+v", d)
	}
}

// TestT4UnreadableIsNo: whatever is wrong with the ledger, the predicate is false
// and does not fail.
func TestT4UnreadableIsNo(t *testing.T) {
	store := trust.Store{View: func() (*ledger.State, error) { return nil, errors.New("broken") }}
	if store.Approved("/a", []byte("x")) {
		t.Fatal("approved")
	}
	if d := store.Decide("/a", sha256.Sum256([]byte("x"))); d.Reason != trust.ReasonUnreadable {
		t.Fatalf("%+v", d)
	}
}

const sum0 = "0000000000000000000000000000000000000000000000000000000000000000"

func exchange(record string) string { return `{"version": 1, "records": [` + record + `]}` }

func goodRecord() string {
	return `{"absolute_path": "/a/.envrc", "content_sha256": "` + sum0 + `", "scope": "user", "decision": "approved", "recorded_at": "2026-11-30T12:00:00+01:00"}`
}

func TestParseExchange(t *testing.T) {
	if x, err := trust.ParseExchange([]byte(exchange(goodRecord()))); err != nil || len(x.Records) != 1 {
		t.Fatalf("%v %v", x, err)
	}
	edit := func(old, new string) string { return exchange(strings.Replace(goodRecord(), old, new, 1)) }
	for name, text := range map[string]string{
		"another version":   strings.Replace(exchange(goodRecord()), "1", "2", 1),
		"an array":          "[" + goodRecord() + "]",
		"twice":             exchange(goodRecord() + "," + goodRecord()),
		"relative":          edit("/a/.envrc", "a/.envrc"),
		"not clean":         edit("/a/.envrc", "/a/../.envrc"),
		"base64 for text":   edit(`"absolute_path": "/a/.envrc"`, `"absolute_path_base64": "L2E="`),
		"decision":          edit("approved", "Approved"),
		"no decision":       edit("approved", ""),
		"scope":             edit(`"user"`, `""`),
		"time":              edit("2026-11-30T12:00:00+01:00", "yesterday"),
		"no time":           edit(`, "recorded_at": "2026-11-30T12:00:00+01:00"`, ""),
		"unknown field":     edit(`"scope"`, `"also": 1, "scope"`),
		"duplicate key":     edit(`"scope": "user"`, `"scope": "user", "scope": "user"`),
		"key in capitals":   edit(`"scope"`, `"Scope"`),
		"trailing document": exchange(goodRecord()) + "{}",
		"cut":               exchange(goodRecord())[:40],
		"nothing":           "",
	} {
		if _, err := trust.ParseExchange([]byte(text)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func FuzzParseExchange(f *testing.F) {
	f.Add([]byte(exchange(goodRecord())))
	f.Add([]byte(`{"version": 1, "records": [{"absolute_path_base64": "L/8="}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := trust.ParseExchange(data)
		if err != nil {
			return
		}
		for _, r := range x.Records {
			e := r.Act("me", time.Now())
			if e.Path.Raw() == "" || (e.Kind != ledger.KindApprove && e.Kind != ledger.KindDeny) {
				t.Errorf("%+v", e)
			}
		}
	})
}
