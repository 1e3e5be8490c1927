package ledger

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const registry = "https://registry.example"

func integrity(of byte) string {
	return "sha512-" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(of)), 64)))
}

func approvePackage(name, version, integrity string) Entry {
	return Entry{Time: now, By: "me", Kind: KindApprove, Package: &PackageAct{Registry: registry, Name: name, Version: version, Integrity: integrity, Decision: Approved}}
}

func denyPackage(name, version string) Entry {
	return Entry{Time: now, By: "me", Kind: KindDeny, Package: &PackageAct{Registry: registry, Name: name, Version: version, Decision: Denied}}
}

func revokePackage(name, version string) Entry {
	return Entry{Time: now, By: "me", Kind: KindRevoke, Package: &PackageAct{Registry: registry, Name: name, Version: version}}
}

func allowHost(host string, port int) Entry {
	return Entry{Time: now, By: "me", Kind: KindApprove, Host: &HostAct{Host: host, Port: port, Decision: Approved}}
}

func answerTo(session, request string, d Decision) Entry {
	return Entry{Time: now, By: "me", Kind: KindAnswer, Answer: &AnswerAct{Session: session, Request: request, SHA256: digest("shown"), Decision: d}}
}

// TestP8ExactlyTheIdentity approves one identity and asks for its neighbours.
func TestP8ExactlyTheIdentity(t *testing.T) {
	f := newFixture(t)
	l := f.open(t)
	act(t, l, f.signer, approvePackage("left-pad", "1.3.0", integrity('a')))
	asks := func(registry, name, version, integrity string) bool {
		t.Helper()
		s, err := l.View()
		must(t, err)
		return s.PackageApproved(registry, name, version, integrity, now)
	}
	if !asks(registry, "left-pad", "1.3.0", integrity('a')) {
		t.Fatal("what was approved is not")
	}
	for _, other := range [][4]string{
		{"https://other.example", "left-pad", "1.3.0", integrity('a')},
		{registry, "left-pat", "1.3.0", integrity('a')},
		{registry, "left-pad", "1.3.1", integrity('a')},
		{registry, "left-pad", "", integrity('a')},
		{registry, "left-pad", "1.3.0", integrity('b')},
		{registry, "left-pad", "1.3.0", ""},
	} {
		if asks(other[0], other[1], other[2], other[3]) {
			t.Errorf("%q is approved", other)
		}
	}
	act(t, l, f.signer, denyPackage("left-pad", ""))
	if asks(registry, "left-pad", "1.3.0", integrity('a')) {
		t.Error("approved although every version is denied")
	}
	act(t, l, f.signer, revokePackage("left-pad", ""))
	if !asks(registry, "left-pad", "1.3.0", integrity('a')) {
		t.Error("the denial's end ended the approval, too")
	}
	act(t, l, f.signer, denyPackage("left-pad", "1.3.0"))
	if asks(registry, "left-pad", "1.3.0", integrity('a')) {
		t.Error("approved although denied since")
	}
	until := now.Add(time.Hour)
	e := approvePackage("left-pad", "1.3.0", integrity('a'))
	e.Package.Expires = &until
	act(t, l, f.signer, e)
	s, err := l.View()
	must(t, err)
	if !s.PackageApproved(registry, "left-pad", "1.3.0", integrity('a'), now) || s.PackageApproved(registry, "left-pad", "1.3.0", integrity('a'), until) {
		t.Error("an approval ends when it says")
	}
}

func TestHostsAndAnswers(t *testing.T) {
	f := newFixture(t)
	l := f.open(t)
	did, err := l.Act(t.Context(), f.signer, allowHost("*.example.com", 443), allowHost("example.com", 80), answerTo("s1", "r-1", Denied), answerTo("s1", "r-1", Approved))
	must(t, err)
	if len(did.Entries) != 4 || did.Anchor.Count != 5 {
		t.Fatalf("did %d acts, count %d", len(did.Entries), did.Anchor.Count)
	}
	s, err := l.View()
	must(t, err)
	if h := s.Hosts(); len(h) != 2 || h[0].Host != "*.example.com" || h[1].Port != 80 {
		t.Errorf("hosts: %v", h)
	}
	if _, ok := s.Host("example.com", 443); ok {
		t.Error("another port is allowed")
	}
	if a, ok := s.Answer("s1", "r-1"); !ok || a.Decision != Approved {
		t.Errorf("answer: %v %v", a, ok)
	}
	if _, ok := s.Answer("s2", "r-1"); ok {
		t.Error("another session's request is answered")
	}
	gone := allowHost("example.com", 80)
	gone.Kind, gone.Host.Decision = KindRevoke, ""
	act(t, l, f.signer, gone)
	if s, err = l.View(); err != nil || len(s.Hosts()) != 1 {
		t.Error("revoked, and still there")
	}
}

// TestSeveralActsOrNone fails at every step of three acts at once.
func TestSeveralActsOrNone(t *testing.T) {
	for _, torn := range []bool{false, true} {
		for at := 1; ; at++ {
			f := newFixture(t)
			l, faults := f.faulty(t, at, torn)
			before, err := os.ReadFile(f.file(headFile))
			must(t, err)
			_, err = l.Act(t.Context(), f.signer, approve("/a", "x"), approvePackage("b", "1.0.0", integrity('b')), allowHost("c.example", 443))
			if len(faults.log) < at {
				break
			}
			s, viewErr := f.open(t).View()
			must(t, viewErr)
			if err == nil { // only what comes after the rename
				if s.Count() != 4 {
					t.Fatalf("step %d: count %d", at, s.Count())
				}
				continue
			}
			after, readErr := os.ReadFile(f.file(headFile))
			must(t, readErr)
			if !errors.Is(err, errFault) || s.Count() != 1 || len(s.Decisions())+len(s.Packages())+len(s.Hosts()) != 0 || !slices.Equal(before, after) {
				t.Fatalf("step %d: %v; %d acts", at, err, s.Count())
			}
			act(t, f.open(t), f.signer, approve("/next", "x"))
		}
	}
}

// TestOneBadActOfSeveral refuses all of them.
func TestOneBadActOfSeveral(t *testing.T) {
	f := newFixture(t)
	l := f.open(t)
	if _, err := l.Act(t.Context(), f.signer, approve("/a", "x"), approvePackage("b", "", integrity('b'))); err == nil {
		t.Fatal("no error")
	}
	_, err := l.Update(t.Context(), f.signer, func(*State) ([]Entry, error) { return nil, fs.ErrNotExist })
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	did, err := l.Update(t.Context(), f.signer, func(*State) ([]Entry, error) { return nil, nil })
	if err != nil || did.Anchor.Count != 1 {
		t.Fatalf("nothing to do: %v, count %d", err, did.Anchor.Count)
	}
}

// TestWhatIsNoSubject turns one field of a good act at a time.
func TestWhatIsNoSubject(t *testing.T) {
	f := newFixture(t)
	l := f.open(t)
	past := now.Add(-time.Second)
	for name, e := range map[string]Entry{
		"no subject":               {Time: now, By: "me", Kind: KindApprove},
		"two subjects":             with(approve("/a", "x"), func(e *Entry) { e.Host = allowHost("a.example", 1).Host }),
		"subject of another kind":  with(answerTo("s", "r", Denied), func(e *Entry) { e.Path = approve("/a", "x").Path }),
		"answer beside approve":    with(approve("/a", "x"), func(e *Entry) { e.Answer = answerTo("s", "r", Denied).Answer }),
		"unknown kind":             with(approve("/a", "x"), func(e *Entry) { e.Kind = "APPROVE" }),
		"decision of another kind": with(approvePackage("a", "1.0.0", integrity('a')), func(e *Entry) { e.Package.Decision = Denied }),
		"decision in capitals":     with(approvePackage("a", "1.0.0", integrity('a')), func(e *Entry) { e.Package.Decision = "APPROVED" }),
		"no version":               approvePackage("a", "", integrity('a')),
		"no integrity":             approvePackage("a", "1.0.0", ""),
		"sha1":                     approvePackage("a", "1.0.0", "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="),
		"sha512 too short":         approvePackage("a", "1.0.0", "sha512-YWE="),
		"integrity in two lines":   approvePackage("a", "1.0.0", integrity('a')[:40]+"\n"+integrity('a')[40:]),
		"integrity in two":         approvePackage("a", "1.0.0", integrity('a')+" "+integrity('b')),
		"denial with integrity":    with(denyPackage("a", ""), func(e *Entry) { e.Package.Integrity = integrity('a') }),
		"name with a space":        approvePackage("a b", "1.0.0", integrity('a')),
		"registry without scheme":  with(denyPackage("a", ""), func(e *Entry) { e.Package.Registry = "registry.example" }),
		"registry with a slash":    with(denyPackage("a", ""), func(e *Entry) { e.Package.Registry += "/" }),
		"package expired":          with(approvePackage("a", "1.0.0", integrity('a')), func(e *Entry) { e.Package.Expires = &past }),
		"long note":                with(denyPackage("a", ""), func(e *Entry) { e.Package.Note = strings.Repeat("x", maxNote+1) }),
		"port 0":                   allowHost("a.example", 0),
		"port 65536":               allowHost("a.example", 65536),
		"host in capitals":         allowHost("A.example", 443),
		"star inside":              allowHost("a.*.example", 443),
		"no host":                  allowHost("", 443),
		"answer to nobody":         answerTo("", "r-1", Denied),
		"answer undecided":         answerTo("s", "r-1", ""),
		"answer about nothing":     with(answerTo("s", "r-1", Denied), func(e *Entry) { e.Answer.SHA256 = "" }),
	} {
		if _, err := l.Act(t.Context(), f.signer, e); err == nil {
			t.Errorf("%s: recorded", name)
		}
	}
	if s, err := l.View(); err != nil || s.Count() != 1 {
		t.Fatalf("%v: something was recorded", err)
	}
}

func with(e Entry, change func(*Entry)) Entry {
	change(&e)
	return e
}
