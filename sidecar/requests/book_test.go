package requests_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/requests"
	"github.com/proctor-project/proctor/sidecar/wire"
)

const (
	sumA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	sumB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func file(path, sum string) wire.Subject {
	p := wire.NewPath(path)
	return wire.Subject{Kind: wire.SubjectFile, Path: &p, SHA256: sum}
}

// clock moves only when it is told to.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func newBook() (*requests.Book, *clock) {
	c := &clock{time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	return requests.NewBook(c.read), c
}

func TestARequestChangesWithItsContent(t *testing.T) {
	b, _ := newBook()
	first, fresh, err := b.Ask(file("/p/.envrc", sumA), "please")
	if err != nil || !fresh || first.ID != "r-1" || first.State != wire.RequestWaiting {
		t.Fatalf("%+v %v %v", first, fresh, err)
	}
	if again, fresh, err := b.Ask(file("/p/.envrc", sumA), "PLEASE"); err != nil || fresh || again.Text != "please" {
		t.Fatalf("%+v %v %v", again, fresh, err)
	}
	other, fresh, err := b.Ask(file("/p/.envrc", sumB), "now this")
	if err != nil || !fresh || other.ID != "r-1" || other.SHA256 == first.SHA256 || other.Text != "now this" {
		t.Fatalf("%+v %v %v", other, fresh, err)
	}
	if r, ok := b.Get("r-1"); !ok || r != other {
		t.Fatalf("%+v %v", r, ok)
	}
	if _, ok := b.Get("r-2"); ok {
		t.Fatal("a request that nobody made")
	}
	if host, _, err := b.Ask(wire.Subject{Kind: wire.SubjectHost, Host: "a.example:443"}, ""); err != nil || host.ID != "r-2" {
		t.Fatalf("%+v %v", host, err)
	}
	rows := []wire.Request{first, {ID: "r-2"}, other}
	if all := requests.Latest(rows); len(all) != 2 || all[0] != other {
		t.Fatalf("%+v", all)
	}
}

// TestD6Bounded: rate, number and size.
func TestD6Bounded(t *testing.T) {
	b, c := newBook()
	asked := 0
	for range 1000 {
		if _, _, err := b.Ask(wire.Subject{Kind: wire.SubjectHost, Host: fmt.Sprintf("h%d.example:443", asked)}, ""); err != nil {
			if !errors.Is(err, requests.ErrTooSoon) {
				t.Fatal(err)
			}
			continue
		}
		asked++
	}
	if asked != requests.Burst {
		t.Fatalf("%d at once", asked)
	}
	for asked < requests.MaxRequests {
		c.now = c.now.Add(requests.Interval)
		if _, _, err := b.Ask(wire.Subject{Kind: wire.SubjectHost, Host: fmt.Sprintf("h%d.example:443", asked)}, ""); err != nil {
			t.Fatal(err)
		}
		asked++
	}
	c.now = c.now.Add(time.Hour)
	if _, _, err := b.Ask(wire.Subject{Kind: wire.SubjectHost, Host: "more.example:443"}, ""); !errors.Is(err, requests.ErrTooMany) {
		t.Fatal(err)
	}
	if _, fresh, err := b.Ask(wire.Subject{Kind: wire.SubjectHost, Host: "h0.example:443"}, ""); err != nil || fresh {
		t.Fatalf("what is known may still be asked: %v %v", fresh, err)
	}
	if _, _, err := b.Ask(wire.Subject{Kind: wire.SubjectHost, Host: "h0.example:443"}, strings.Repeat("x", requests.MaxText+1)); err == nil {
		t.Fatal("a long reason")
	}
}

func TestWhatIsNoSubject(t *testing.T) {
	good := file("/p/.envrc", sumA)
	bad := map[string]func(*wire.Subject){
		"no kind":        func(s *wire.Subject) { s.Kind = "" },
		"another kind":   func(s *wire.Subject) { s.Kind = wire.SubjectHost },
		"no digest":      func(s *wire.Subject) { s.SHA256 = "" },
		"short digest":   func(s *wire.Subject) { s.SHA256 = "ab" },
		"capitals":       func(s *wire.Subject) { s.SHA256 = strings.ToUpper(sumA) },
		"relative":       func(s *wire.Subject) { s.Path = &wire.Path{Path: "p"} },
		"not clean":      func(s *wire.Subject) { s.Path = &wire.Path{Path: "/p/../q"} },
		"two paths":      func(s *wire.Subject) { s.Path.Base64 = []byte("/p") },
		"long":           func(s *wire.Subject) { s.Path = &wire.Path{Path: "/" + strings.Repeat("p", wire.MaxSubject)} },
		"NUL":            func(s *wire.Subject) { s.Path = &wire.Path{Path: "/p\x00"} },
		"a package, too": func(s *wire.Subject) { s.Package = "a@1.0.0" },
		"a spaced host":  func(s *wire.Subject) { *s = wire.Subject{Kind: wire.SubjectHost, Host: "a b:1"} },
		"an empty host":  func(s *wire.Subject) { *s = wire.Subject{Kind: wire.SubjectHost} },
	}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range bad {
		s := file("/p/.envrc", sumA)
		change(&s)
		if err := s.Check(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
