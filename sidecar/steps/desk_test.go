package steps_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// live is a session whose serve step is running.
type live struct {
	*opened
	events chan wire.ServeEvent
	stop   func() error
}

func (c *control) serving(id string) *live {
	c.Helper()
	_, stream := c.tree(map[string]string{"a.txt": "one\n", "test.sh": "exit 0\n"})
	reply, err := c.tryOpen(c.openRequest(id, plainPolicy), stream)
	c.must(err)
	s := &live{opened: &opened{control: c, id: id, layout: c.sessionLayout(id), before: stream, reply: reply}, events: make(chan wire.ServeEvent, 1000)}
	s.layout.Sockets = filepath.Join(c.dir, "s-"+id)
	c.must(os.Mkdir(s.layout.Sockets, 0o755))
	in, feed := io.Pipe()
	out, told := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(steps.Serve(c.Context(), s.layout, in, told), told.Close()) }()
	go func() {
		dec := json.NewDecoder(out)
		for {
			var e wire.ServeEvent
			if dec.Decode(&e) != nil {
				close(s.events)
				return
			}
			s.events <- e
		}
	}()
	s.stop = func() error {
		_, err := io.WriteString(feed, "close\n")
		return errors.Join(err, <-ended)
	}
	for e := range s.events {
		if e.Event == "ready" {
			return s
		}
	}
	c.Fatalf("serve: %v", <-ended)
	return nil
}

// told ends the session, and is its events of a name.
func (s *live) told(name string) []json.RawMessage {
	s.Helper()
	s.must(s.stop())
	var all []json.RawMessage
	for e := range s.events {
		if e.Event == name {
			all = append(all, e.Data)
		}
	}
	return all
}

func (s *live) ask(method, path string, body []byte, answer any) int {
	s.Helper()
	c := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(s.layout.Sockets, steps.AgentSocket))
	}}}
	defer c.CloseIdleConnections()
	req, err := http.NewRequestWithContext(s.Context(), method, "http://x"+path, bytes.NewReader(body))
	s.must(err)
	resp, err := c.Do(req)
	s.must(err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	s.must(err)
	if answer != nil {
		s.decode(b, answer)
	}
	return resp.StatusCode
}

func (s *live) shows(path, content string) wire.Decided {
	s.Helper()
	var d wire.Decided
	query := url.Values{"path_base64": {base64.StdEncoding.EncodeToString([]byte(path))}}
	status := s.ask("POST", "/v1/trust/decide?"+query.Encode(), []byte(content), &d)
	if (status == 200) != d.Allowed || (status == 403) == d.Allowed {
		s.Fatalf("%q: %d %+v", path, status, d)
	}
	return d
}

// verb runs one of the operator's verbs over the session.
func (s *live) verb(do func(context.Context, steps.Layout, io.Reader, io.Writer) error, req, reply any, content ...string) error {
	s.Helper()
	in := bytes.NewBuffer(s.line(req))
	for _, c := range content {
		in.Write(s.line(wire.Content{Schema: "proctor/content/v1", Size: int64(len(c))}))
		in.WriteString(c)
	}
	var out bytes.Buffer
	if err := do(s.Context(), s.layout, in, &out); err != nil {
		return err
	}
	s.decode(out.Bytes(), reply)
	return nil
}

func (s *live) trust(act, path string, change func(*wire.TrustRequest), content ...string) (wire.TrustReply, error) {
	s.Helper()
	p := wire.NewPath(path)
	req := wire.TrustRequest{Schema: "proctor/trust/v1", Act: act, By: "tester", Path: &p}
	if change != nil {
		change(&req)
	}
	var reply wire.TrustReply
	return reply, s.verb(steps.Trust, req, &reply, content...)
}

func (s *live) requests(req wire.RequestsRequest) (wire.RequestsReply, error) {
	s.Helper()
	req.Schema, req.By = "proctor/requests/v1", "tester"
	var reply wire.RequestsReply
	return reply, s.verb(steps.Requests, req, &reply)
}

func sumOf(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }

const envrc = "/home/me/site/.envrc"

// TestARunningSupervisorSeesTheLedger: an approval, a denial and their end count
// from the next decision on, without a restart; other bytes never do.
func TestARunningSupervisorSeesTheLedger(t *testing.T) {
	s := newControl(t).serving("aaaaaaaaaaaa")
	want := func(content, reason string) wire.Decided {
		t.Helper()
		d := s.shows(envrc, content)
		if d.Reason != reason || d.Allowed != (reason == "approved") || d.Subject.SHA256 != sumOf(content) {
			t.Fatalf("%q: %+v, want %s", content, d, reason)
		}
		return d
	}
	d := want("one", "no_record")
	if d.Remedy != "proctor-agent request file "+envrc {
		t.Errorf("remedy %q", d.Remedy)
	}
	want("one", "no_record")
	_, err := s.trust("approve", envrc, func(r *wire.TrustRequest) { r.Kept, r.Expect = true, sumOf("one") })
	s.must(err)
	want("one", "approved")
	want("two", "content_changed")
	_, err = s.trust("revoke", envrc, nil)
	s.must(err)
	want("one", "no_record")
	_, err = s.trust("deny", envrc, func(r *wire.TrustRequest) { r.Note = "not here" }, "whatever")
	s.must(err)
	if d := want("one", "denied"); d.Note != "not here" || d.Remedy != "" {
		t.Errorf("%+v", d)
	}
	if d := s.shows("/home/me/other", "one"); d.Reason != "outside_product" || d.Remedy != "" {
		t.Errorf("%+v", d)
	}
	if d := s.shows("/home/me/site/\xff", "raw"); d.Reason != "no_record" || d.Subject.Path.Raw() != "/home/me/site/\xff" {
		t.Errorf("%+v", d)
	}
	// The operator hears of each thing once.
	var refused []string
	for _, data := range s.told("refused") {
		var r wire.Refused
		s.decode(data, &r)
		refused = append(refused, r.What+" "+r.Reason)
	}
	if got, want := strings.Join(refused, "; "), envrc+" no_record; "+envrc+" content_changed; "+envrc+" denied; /home/me/site/\\xff no_record"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// TestT13KeptContents: what was refused can be approved by its digest, and
// nothing that was not shown; what is kept is hashed again.
func TestT13KeptContents(t *testing.T) {
	s := newControl(t).serving("aaaaaaaaaaaa")
	kept := func(content string) func(*wire.TrustRequest) {
		return func(r *wire.TrustRequest) { r.Kept, r.Expect = true, sumOf(content) }
	}
	s.shows(envrc, "one")
	if _, err := s.trust("approve", envrc, kept("never shown")); err == nil {
		t.Error("approved what was never shown")
	}
	if _, err := s.trust("approve", envrc, func(r *wire.TrustRequest) { r.Kept = true }); err == nil {
		t.Error("approved without a digest")
	}
	reply, err := s.trust("show", envrc, kept("one"))
	s.must(err)
	if string(reply.Head) != "one" || reply.Decision.Reason != "no_record" {
		t.Errorf("%+v", reply)
	}
	// The same bytes under a name that says something else.
	s.replace("refused-"+sumOf("one"), "evil")
	if _, err := s.trust("approve", envrc, kept("one")); err == nil {
		t.Error("approved by a file's name")
	}
	if d := s.shows(envrc, "evil"); d.Allowed {
		t.Error("allowed")
	}
	// Many and large contents are kept up to the bounds, and refused all the same.
	big := strings.Repeat("x", door.MaxContent-8)
	for i := range 70 {
		if d := s.shows(envrc, fmt.Sprintf("%s%07d", big, i)); d.Reason != "no_record" {
			t.Fatalf("%+v", d)
		}
	}
	all, err := filepath.Glob(s.path("refused-*"))
	s.must(err)
	if len(all) < 60 || len(all) > 66 {
		t.Errorf("%d contents of 1 MiB are kept", len(all))
	}
	s.must(s.stop())
}

func (s *live) asks(subject wire.Subject, text string) (wire.Request, int) {
	s.Helper()
	body, err := json.Marshal(wire.Ask{Schema: "proctor/ask/v1", Subject: subject, Text: text})
	s.must(err)
	var r wire.Request
	return r, s.ask("POST", "/v1/requests", body, &r)
}

func (s *live) state(id string) wire.Request {
	s.Helper()
	var r wire.Request
	s.ask("GET", "/v1/requests/"+id, nil, &r)
	return r
}

func fileSubject(path, content string) wire.Subject {
	p := wire.NewPath(path)
	return wire.Subject{Kind: wire.SubjectFile, Path: &p, SHA256: sumOf(content)}
}

// TestU4RequestsAreAnsweredAsShown: the operator answers what was shown; a
// request that changed since is refused, and grants nothing.
func TestU4RequestsAreAnsweredAsShown(t *testing.T) {
	s := newControl(t).serving("aaaaaaaaaaaa")
	if _, status := s.asks(fileSubject(envrc, "one"), ""); status != 400 {
		t.Errorf("a content that was not shown: %d", status)
	}
	if _, status := s.asks(fileSubject("/etc/passwd", "one"), ""); status != 400 {
		t.Errorf("a file outside: %d", status)
	}
	s.shows(envrc, "one")
	s.shows(envrc, "one")
	r, _ := s.asks(fileSubject(envrc, "one"), "needed \x1b[2J")
	if r.ID != "r-1" || r.State != "waiting" {
		t.Fatalf("%+v", r)
	}
	shown, err := s.requests(wire.RequestsRequest{Act: "show", ID: "r-1"})
	s.must(err)
	if got := shown.Requests[0]; got.SHA256 != r.SHA256 || got.Refused != 2 || got.Text != "needed \x1b[2J" || string(shown.Head) != "one" {
		t.Errorf("%+v", shown)
	}
	if _, err := s.requests(wire.RequestsRequest{Act: "approve", ID: "r-1"}); err == nil {
		t.Error("approved without having been shown")
	}
	s.shows(envrc, "two")
	s.asks(fileSubject(envrc, "two"), "now this")
	_, err = s.requests(wire.RequestsRequest{Act: "approve", ID: "r-1", Expect: r.SHA256})
	if err == nil || !strings.Contains(err.Error(), "changed since you looked") {
		t.Errorf("%v", err)
	}
	if s.shows(envrc, "one").Allowed || s.shows(envrc, "two").Allowed || s.state("r-1").State != "waiting" {
		t.Error("granted")
	}
	now, err := s.requests(wire.RequestsRequest{Act: "list"})
	s.must(err)
	done, err := s.requests(wire.RequestsRequest{Act: "approve", ID: "r-1", Expect: now.Requests[0].SHA256, Reason: "fine"})
	s.must(err)
	if len(done.Acts) != 2 || len(done.Records) != 1 || done.Records[0].SHA256 != sumOf("two") {
		t.Errorf("%+v", done)
	}
	if got := s.state("r-1"); got.State != "approved" || got.Answer != "fine" {
		t.Errorf("%+v", got)
	}
	if s.shows(envrc, "one").Allowed || !s.shows(envrc, "two").Allowed {
		t.Error("not exactly what was shown is approved")
	}
	// Asked for other bytes, it waits again.
	s.shows(envrc, "three")
	r, _ = s.asks(fileSubject(envrc, "three"), "")
	if r.ID != "r-1" || r.State != "waiting" {
		t.Errorf("%+v", r)
	}
	// What is approved are the bytes, not the name that they are kept under.
	s.replace("refused-"+sumOf("three"), "evil")
	if _, err := s.requests(wire.RequestsRequest{Act: "approve", ID: "r-1", Expect: r.SHA256}); err == nil {
		t.Error("approved by a file's name")
	}
	s.must(s.stop())
}

// TestDenialsOfRequests: the agent is told why, and nothing else changes.
func TestDenialsOfRequests(t *testing.T) {
	s := newControl(t).serving("aaaaaaaaaaaa")
	r, status := s.asks(wire.Subject{Kind: wire.SubjectHost, Host: "a.example:443"}, "")
	if status != 200 {
		t.Fatal(status)
	}
	done, err := s.requests(wire.RequestsRequest{Act: "deny", ID: r.ID, Expect: r.SHA256, Reason: "use the mirror"})
	s.must(err)
	if len(done.Acts) != 1 {
		t.Errorf("%+v", done)
	}
	if got := s.state(r.ID); got.State != "denied" || got.Answer != "use the mirror" {
		t.Errorf("%+v", got)
	}
	h, _ := s.asks(wire.Subject{Kind: wire.SubjectHost, Host: "b.example:443"}, "")
	done, err = s.requests(wire.RequestsRequest{Act: "approve", ID: h.ID, Expect: h.SHA256})
	s.must(err)
	if len(done.Acts) != 2 || s.state(h.ID).State != "approved" {
		t.Errorf("%+v", done)
	}
	p, _ := s.asks(wire.Subject{Kind: wire.SubjectPackage, Package: "left-pad@1.3.0"}, "")
	other := wire.Package{Registry: "https://registry.example", Name: "other", Version: "1.0.0", Integrity: "sha512-" + base64.StdEncoding.EncodeToString(make([]byte, 64))}
	if _, err := s.requests(wire.RequestsRequest{Act: "approve", ID: p.ID, Expect: p.SHA256, Packages: []wire.Package{other}}); err == nil {
		t.Error("another package was approved in its place")
	}
	right := other
	right.Name, right.Version = "left-pad", "1.3.0"
	// What is denied is not approved unseen: a package that comes along, a host by
	// its own record or by a pattern's.
	_, err = s.control.packages("deny", wire.Package{Registry: other.Registry, Name: "other", Version: "1.0.0"})
	s.must(err)
	if _, err := s.requests(wire.RequestsRequest{Act: "approve", ID: p.ID, Expect: p.SHA256, Packages: []wire.Package{right, other}}); err == nil || s.state(p.ID).State != "waiting" {
		t.Errorf("a denied package came along: %v", err)
	}
	_, err = s.control.packages("revoke", wire.Package{Name: "other"})
	s.must(err)
	for _, denied := range []string{"c.example", "*.d.example"} {
		s.must(s.verb(steps.Hosts, wire.HostsRequest{Schema: "proctor/hosts/v1", Act: "deny", User: "tester", Host: denied, Port: 443}, &wire.HostsReply{}))
		d, _ := s.asks(wire.Subject{Kind: wire.SubjectHost, Host: strings.Replace(denied, "*", "x", 1) + ":443"}, "")
		if _, err := s.requests(wire.RequestsRequest{Act: "approve", ID: d.ID, Expect: d.SHA256}); err == nil || s.state(d.ID).State != "waiting" {
			t.Errorf("%s, denied, was approved: %v", denied, err)
		}
	}
	done, err = s.requests(wire.RequestsRequest{Act: "approve", ID: p.ID, Expect: p.SHA256, Packages: []wire.Package{right, other}})
	s.must(err)
	if len(done.Acts) != 3 || s.state(p.ID).State != "approved" {
		t.Errorf("%+v", done)
	}
	if _, err := s.requests(wire.RequestsRequest{Act: "approve", ID: "r-9", Expect: p.SHA256}); err == nil {
		t.Error("a request that nobody made")
	}
	// An answer to one session's request answers no other's.
	o := s.control.serving("bbbbbbbbbbbb")
	if r, _ := o.asks(wire.Subject{Kind: wire.SubjectHost, Host: "a.example:443"}, ""); r.ID != "r-1" || r.State != "waiting" {
		t.Errorf("%+v", r)
	}
	s.must(errors.Join(s.stop(), o.stop()))
}

// TestServeRefusesAnotherLedger: a ledger that does not know the session, or that
// does not verify, opens no door.
func TestServeRefusesAnotherLedger(t *testing.T) {
	for name, damage := range map[string]func(*opened){
		"older": func(o *opened) { copyDir(t, o.path("../older"), o.layout.Ledger) },
		"one byte": func(o *opened) {
			b, err := os.ReadFile(filepath.Join(o.layout.Ledger, "ledger"))
			o.must(err)
			b[len(b)/2] ^= 1
			o.must(os.WriteFile(filepath.Join(o.layout.Ledger, "ledger"), b, 0o600))
		},
	} {
		c := newControl(t)
		copyDir(t, c.layout.Ledger, filepath.Join(c.dir, "older"))
		o := c.open("aaaaaaaaaaaa")
		damage(o)
		if _, err := o.serve("close\n"); err == nil {
			t.Errorf("%s: serve starts", name)
		}
	}
}

// TestDecisionsStandInTheSeal: what was decided is in the seal, with its reason
// and how often, and decides nothing there.
func TestDecisionsStandInTheSeal(t *testing.T) {
	s := newControl(t).serving("aaaaaaaaaaaa")
	s.shows(envrc, "one")
	s.shows(envrc, "one")
	s.act(ledger.KindApprove, envrc, "one")
	s.shows(envrc, "one")
	s.asks(wire.Subject{Kind: wire.SubjectHost, Host: "a.example:443"}, "")
	s.must(s.stop())
	for e := range s.events {
		if e.Event == "closed" {
			s.head = &e.Record
		}
	}
	in := s.input()
	reply, p, err := s.seal(in)
	if err != nil || reply.Verdict != "PASS" {
		t.Fatalf("%v: %s %q", err, reply.Verdict, p.Reasons)
	}
	want := []seal.Decision{
		{Door: "requests", What: "host a.example:443", Outcome: "asked", Count: 1},
		{Door: "trust", What: "file " + envrc, Outcome: "allowed", Reason: "approved", Count: 1},
		{Door: "trust", What: "file " + envrc, Outcome: "refused", Reason: "no_record", Count: 2},
	}
	if !slices.Equal(p.Decisions, want) || p.DecisionsLeftOut != 0 {
		t.Errorf("%+v", p.Decisions)
	}
}
