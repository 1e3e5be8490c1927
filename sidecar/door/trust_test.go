package door_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/requests"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// fakeDesk allows the content "good".
type fakeDesk struct{ book *requests.Book }

func (f *fakeDesk) DecideFile(path string, content []byte) wire.Decided {
	p := wire.NewPath(path)
	d := wire.Decided{Schema: "proctor/decision/v1", Subject: wire.Subject{Kind: wire.SubjectFile, Path: &p, SHA256: strings.Repeat("a", 64)}}
	d.Allowed, d.Reason = string(content) == "good", "no_record"
	if d.Allowed {
		d.Reason = "approved"
	}
	return d
}

func (f *fakeDesk) Ask(s wire.Subject, text string) (wire.Request, bool, error) {
	return f.book.Ask(s, text)
}

func (f *fakeDesk) Request(id string) (wire.Request, bool) { return f.book.Get(id) }

func (f *fakeDesk) Requests() []wire.Request { return f.book.All() }

func (s *desk) client() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", s.socket) },
	}}
}

// do asks a question and returns the status and the document.
func (s *desk) do(method, path, body string) (int, map[string]any) {
	s.Helper()
	req, err := http.NewRequest(method, "http://x"+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	c := s.client()
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		s.Fatalf("%s: %q", resp.Status, b)
	}
	return resp.StatusCode, doc
}

func TestDecide(t *testing.T) {
	s := serve(t)
	at := "/v1/trust/decide?path=" + url.QueryEscape("/p/a b")
	if status, doc := s.do("POST", at, "good"); status != 200 || doc["allowed"] != true || doc["reason"] != "approved" {
		t.Errorf("%d %v", status, doc)
	}
	if kind := <-s.rows; kind != "decided" {
		t.Errorf("recorded %q", kind)
	}
	if status, doc := s.do("POST", at, "bad"); status != 403 || doc["allowed"] != false {
		t.Errorf("%d %v", status, doc)
	}
	raw := base64.StdEncoding.EncodeToString([]byte("/p/\xff"))
	if status, doc := s.do("POST", "/v1/trust/decide?path_base64="+url.QueryEscape(raw), "bad"); status != 403 || doc["subject"].(map[string]any)["path"].(map[string]any)["path_base64"] != raw {
		t.Errorf("%d %v", status, doc)
	}
	for query, want := range map[string]int{
		"": 400, "path=p": 400, "path=/p/../q": 400, "path=%00": 400, "path=/p%00": 400, "path_base64=!": 400,
		"path=/p&path_base64=" + url.QueryEscape(raw): 400, "path=/" + strings.Repeat("p", wire.MaxSubject): 400,
	} {
		if status, doc := s.do("POST", "/v1/trust/decide?"+query, "good"); status != want || doc["error"] == nil {
			t.Errorf("%.40q: %d %v", query, status, doc)
		}
	}
	if status, _ := s.do("POST", at, strings.Repeat("x", door.MaxContent)); status != 403 {
		t.Errorf("the largest content: %d", status)
	}
	if status, doc := s.do("POST", at, strings.Repeat("x", door.MaxContent+1)); status != 413 {
		t.Errorf("a larger one: %d %v", status, doc)
	}
	if status, _ := s.do("GET", at, ""); status != 404 {
		t.Errorf("GET: %d", status)
	}
	close(s.full)
	if status, doc := s.do("POST", at, "good"); status != 503 || doc["allowed"] != nil {
		t.Errorf("a record that is full allows: %d %v", status, doc)
	}
}

// TestD5SlowContentsHoldNobody: contents that never end keep others from being
// decided for as long as they may take, and nobody from asking who they are.
func TestD5SlowContentsHoldNobody(t *testing.T) {
	s := serve(t)
	for range 60 {
		c := s.dial()
		if _, err := fmt.Fprintf(c, "POST /v1/trust/decide?path=/p HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf"); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	if status, _ := s.do("GET", "/v1/session", ""); status != 200 || time.Since(start) > 10*time.Second { // they may take 30
		t.Errorf("%d after %s", status, time.Since(start))
	}
	if status, _ := s.do("POST", "/v1/trust/decide?path=/p", "good"); status != 503 && status != 200 {
		t.Errorf("%d", status)
	}
}

func question(subject, text string) string {
	return fmt.Sprintf(`{"schema":"proctor/ask/v1","subject":%s,"text":%q}`, subject, text)
}

const hostSubject = `{"kind":"host","host":"a.example:443"}`

func TestRequestsThroughTheDoor(t *testing.T) {
	s := serve(t)
	status, doc := s.do("POST", "/v1/requests", question(hostSubject, "why"))
	if status != 200 || doc["id"] != "r-1" || doc["state"] != "waiting" {
		t.Fatalf("%d %v", status, doc)
	}
	if kind := <-s.rows; kind != "request" {
		t.Errorf("recorded %q", kind)
	}
	if status, doc = s.do("POST", "/v1/requests", question(hostSubject, "again")); status != 200 || doc["id"] != "r-1" {
		t.Errorf("%d %v", status, doc)
	}
	if kind := <-s.rows; kind != "request-repeated" {
		t.Errorf("recorded %q", kind)
	}
	if status, doc = s.do("GET", "/v1/requests/r-1", ""); status != 200 || doc["text"] != "why" {
		t.Errorf("%d %v", status, doc)
	}
	if status, doc = s.do("GET", "/v1/requests", ""); status != 200 || len(doc["requests"].([]any)) != 1 {
		t.Errorf("%d %v", status, doc)
	}
	for _, c := range []struct {
		path, body string
		want       int
	}{
		{"/v1/requests", "", 400},
		{"/v1/requests", "[]", 400},
		{"/v1/requests", strings.Replace(question(hostSubject, ""), "ask/v1", "ask/v2", 1), 400},
		{"/v1/requests", question(hostSubject, "")[:20], 400},
		{"/v1/requests", question(hostSubject, "") + "{}", 400},
		{"/v1/requests", question(`{"kind":"host","host":"a.example:443","approved":true}`, ""), 400},
		{"/v1/requests", question(`{"kind":"host","Host":"a.example:443"}`, ""), 400},
		{"/v1/requests", question(`{"kind":"approve"}`, ""), 400},
		{"/v1/requests", question(hostSubject, strings.Repeat("x", requests.MaxText+1)), 400},
		{"/v1/requests", question(hostSubject, strings.Repeat("x", 1<<20)), 413},
		{"/v1/requests/r-1/approve", "", 404},
		{"/v1/trust/approve?path=/p", "good", 404},
		{"/v1/requests/r-1", "{}", 404},
	} {
		if status, doc := s.do("POST", c.path, c.body); status != c.want || doc["error"] == nil {
			t.Errorf("%s %.60q: %d %v, want %d", c.path, c.body, status, doc, c.want)
		}
	}
	if status, _ := s.do("GET", "/v1/requests/r-2", ""); status != 404 {
		t.Errorf("a request that nobody made: %d", status)
	}
}

// TestD6TooManyRequests: what is over the rate is refused with its own status.
func TestD6TooManyRequests(t *testing.T) {
	s := serve(t)
	refused := 0
	for i := range 2 * requests.Burst {
		status, _ := s.do("POST", "/v1/requests", question(fmt.Sprintf(`{"kind":"host","host":"h%d.example:443"}`, i), ""))
		switch status {
		case 200:
		case 429:
			refused++
		default:
			t.Fatalf("%d", status)
		}
	}
	if refused < requests.Burst-2 {
		t.Errorf("only %d of %d refused", refused, 2*requests.Burst)
	}
}

// TestWaitingEndsWithItsClient: a client that waits and goes away leaves nothing.
func TestWaitingEndsWithItsClient(t *testing.T) {
	s := serve(t)
	s.do("POST", "/v1/requests", question(hostSubject, ""))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://x/v1/requests/r-1?wait=3600", bytes.NewReader(nil))
	if err != nil {
		t.Fatal(err)
	}
	c := s.client()
	defer c.CloseIdleConnections()
	if _, err := c.Do(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	start := time.Now()
	if status, doc := s.do("GET", "/v1/requests/r-1?wait=1", ""); status != 200 || doc["state"] != "waiting" || time.Since(start) < time.Second {
		t.Errorf("%d %v after %s", status, doc, time.Since(start))
	}
}
