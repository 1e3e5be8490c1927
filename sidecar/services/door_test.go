package services_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/egress"
	"github.com/proctor-project/proctor/sidecar/services"
)

// canary is the secret; it has what needs escaping in a query and in JSON.
const canary = `sk/Canary+"0123<456>789&`

// counter is a door that is being served, and what it recorded.
type counter struct {
	testing.TB
	socket string
	mu     sync.Mutex
	rows   []string
	leads  string
	done   map[string]int
}

// fake is the service; what it was sent is in requests.
type fake struct {
	*httptest.Server
	requests chan *http.Request
}

func upstream(t testing.TB, h http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{requests: make(chan *http.Request, 100)}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests <- r
		h(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func start(t testing.TB, f *fake, change func(*services.Config, *services.Service)) *counter {
	t.Helper()
	dir, err := os.MkdirTemp("", "c") // short: a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &counter{TB: t, socket: filepath.Join(dir, "s"), leads: "127.0.0.1", done: map[string]int{}}
	roots := x509.NewCertPool()
	roots.AddCert(f.Certificate())
	s := services.Service{
		Name: "model", Base: f.URL + "/api", Place: services.Header, Field: "Authorization", Prefix: "Bearer ",
		Methods: []string{"GET", "POST"}, Paths: []string{"/v1/"}, Secret: keys.NewSecret([]byte(canary)),
	}
	cfg := services.Config{
		Roots: roots,
		Dialer: egress.Dialer{Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(c.leads)}, nil
		}},
		Row: func(kind string, data any) error {
			b, err := json.Marshal(data)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.rows = append(c.rows, kind+" "+string(b))
			return err
		},
		Refused: func(r door.Refusal) error {
			b, err := json.Marshal(r)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.rows = append(c.rows, "refused "+string(b))
			return err
		},
		Done: func(outcome string, _ time.Duration, _, _ int64) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.done[outcome]++
		},
	}
	if change != nil {
		change(&cfg, &s)
	}
	cfg.Services = []services.Service{s}
	d, err := services.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", c.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the door does not end")
		}
		for _, row := range c.rows {
			leaks(t, "the record", row)
		}
	})
	return c
}

// leaks fails if a text holds the secret in any spelling.
func leaks(t testing.TB, where, text string) {
	t.Helper()
	quoted, _ := json.Marshal(canary)
	for _, s := range []string{
		canary, url.QueryEscape(canary), url.PathEscape(canary), base64.StdEncoding.EncodeToString([]byte(canary)),
		base64.StdEncoding.EncodeToString([]byte("me:" + canary)), base64.RawURLEncoding.EncodeToString([]byte(canary)), string(quoted[1 : len(quoted)-1]),
	} {
		if strings.Contains(text, s) {
			t.Errorf("%s holds the secret, as %q: %q", where, s, text)
		}
	}
}

func (c *counter) client() *http.Client {
	tr := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.socket)
	}}
	c.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// ask sends a request and returns the answer as text, head included.
func (c *counter) ask(method, path string, body io.Reader, headers ...string) (*http.Response, string) {
	c.Helper()
	req, err := http.NewRequest(method, "http://door"+path, body)
	if err != nil {
		c.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.client().Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, _ := io.ReadAll(resp.Body)
	text := fmt.Sprintf("%s %v %s", resp.Status, resp.Header, b)
	leaks(c.TB, "the answer to "+path, text)
	return resp, text
}

// TestD7SecretIsAddedAndStaysOut (case D7): the service gets the secret in each of
// the places, and an answer that echoes all that came shows none of it.
func TestD7SecretIsAddedAndStaysOut(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.Header().Set("X-Echo-"+"Url", r.URL.String())
		w.Header().Add("Set-Cookie", "session=abc")
		_ = json.NewEncoder(w).Encode(map[string]any{"headers": r.Header, "url": r.URL.String(), "raw": canary})
		_, _ = fmt.Fprint(w, canary, r.Header, url.QueryEscape(canary))
		_, _ = fmt.Fprint(w, base64.StdEncoding.EncodeToString([]byte(canary)))
	}
	for _, c := range []struct {
		place services.Place
		field string
		sent  func(r *http.Request) bool
	}{
		{services.Header, "Authorization", func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+canary }},
		{services.Header, "X-Token", func(r *http.Request) bool { return r.Header.Get("X-Token") == "Bearer "+canary }},
		{services.Query, "key", func(r *http.Request) bool {
			return r.URL.Query().Get("key") == canary && len(r.URL.Query()["key"]) == 1 && r.URL.Query().Get("q") == "1"
		}},
		{services.Basic, "me", func(r *http.Request) bool { u, p, ok := r.BasicAuth(); return ok && u == "me" && p == canary }},
	} {
		f := upstream(t, echo)
		d := start(t, f, func(_ *services.Config, s *services.Service) {
			s.Place, s.Field = c.place, c.field
			if c.place != services.Header {
				s.Prefix = ""
			}
		})
		resp, text := d.ask("GET", "/model/v1/echo?q=1&key=mine", nil, "Authorization", "Bearer mine", "X-Token", "mine", "Cookie", "a=b", "X-Own", "kept", "Range", "bytes=0-10", "Accept-Encoding", "gzip")
		got := <-f.requests
		if resp.StatusCode != 200 || !c.sent(got) || got.URL.Path != "/api/v1/echo" || got.Header.Get("X-Own") != "kept" {
			t.Errorf("%s: %s; the service got %s %v", c.place, resp.Status, got.URL, got.Header)
		}
		if !strings.Contains(text, "****") || resp.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %s", c.place, text)
		}
		for _, h := range []string{"Cookie", "Range"} {
			if got.Header.Get(h) != "" {
				t.Errorf("%s: %s was passed on", c.place, h)
			}
		}
		if e := got.Header.Get("Accept-Encoding"); e != "identity" {
			t.Errorf("%s: asked for encoding %q", c.place, e)
		}
		if c.place == services.Header && c.field == "X-Token" && got.Header.Get("Authorization") != "" {
			t.Error("the client's own credentials were passed on")
		}
	}
}

// TestD7Redirects (case D7): none is followed; one within the service becomes the
// door's own address.
func TestD7Redirects(t *testing.T) {
	elsewhere := upstream(t, func(http.ResponseWriter, *http.Request) {})
	f := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
	})
	d := start(t, f, nil)
	for to, want := range map[string]string{
		elsewhere.URL + "/?k=" + url.QueryEscape(canary): "",
		f.URL + "/api/v1/next?x=1":                       "/model/v1/next?x=1",
		"next":                                           "",
		f.URL + "/outside":                               f.URL + "/outside",
	} {
		resp, _ := d.ask("POST", "/model/v1/go?to="+url.QueryEscape(to), nil)
		if resp.StatusCode != 307 || want != "" && resp.Header.Get("Location") != want {
			t.Errorf("%s: %s to %q", to, resp.Status, resp.Header.Get("Location"))
		}
	}
	select {
	case r := <-elsewhere.requests:
		t.Errorf("the redirect was followed: %v", r.Header)
	default:
	}
}

// TestServiceRefusals: methods, paths and spellings that the policy does not name.
func TestServiceRefusals(t *testing.T) {
	f := upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	d := start(t, f, nil)
	if resp, text := d.ask("GET", "/model/v1/x", nil); resp.StatusCode != 200 {
		t.Fatal(text)
	}
	<-f.requests
	for _, c := range [][2]string{
		{"DELETE", "/model/v1/x"},
		{"PUT", "/model/v1/x"},
		{"GET", "/model/v2/x"},
		{"GET", "/model/"},
		{"GET", "/model"},
		{"GET", "/other/v1/x"},
		{"GET", "/"},
		{"GET", "/model/v1/../v2/x"},
		{"GET", "/model/v1/%2e%2e/v2/x"},
		{"GET", "/model/v1/..%2fv2/x"},
		{"GET", "/model/v1/%252e%252e/x"},
		{"GET", "/model//v1/x"},
		{"GET", "/model/v1//x"},
		{"GET", `/model/v1/..\v2`},
		{"GET", "/model/v1/..%5cv2"},
		{"GET", "/model/v1/.;/x"},
		{"GET", "/model/v1/%00"},
	} {
		conn, err := net.Dial("unix", d.socket)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: door\r\n\r\n", c[0], c[1])
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != 403 && resp.StatusCode != 400 {
			t.Errorf("%s %s: %v, %v", c[0], c[1], resp, err)
		}
		_ = conn.Close()
	}
	select {
	case r := <-f.requests:
		t.Errorf("the service was asked for %s %s", r.Method, r.URL)
	default:
	}
}

// TestServiceMethodAndPathHold: no header makes a service take a request for
// another method or path, or for one with credentials of the agent's, than what
// was held against the policy.
func TestServiceMethodAndPathHold(t *testing.T) {
	f := upstream(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	d := start(t, f, nil)
	send := []string{"X-Request-Id", "1"}
	bad := []string{
		"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Uri",
		"X_HTTP_Method_Override", "X_Api_Key", "Cookie", "X-Api-Key",
	}
	for _, name := range bad {
		send = append(send, name, "DELETE")
	}
	if resp, text := d.ask("POST", "/model/v1/x", strings.NewReader("{}"), send...); resp.StatusCode != 200 {
		t.Fatal(text)
	}
	r := <-f.requests
	if r.Header.Get("X-Request-Id") != "1" {
		t.Errorf("a header that is nobody's business: %v", r.Header)
	}
	for _, name := range bad {
		if v := r.Header.Values(name); len(v) > 0 {
			t.Errorf("%s: %q is passed on", name, v)
		}
	}
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(conn, "POST /model/v1/x HTTP/1.1\r\nHost: door\r\nTransfer-Encoding: chunked\r\nTrailer: X-Api-Key\r\n\r\n1\r\n.\r\n0\r\nX-Api-Key: evil\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v, %v", resp, err)
	}
	if r := <-f.requests; len(r.Trailer) > 0 {
		t.Errorf("trailer %v is passed on", r.Trailer)
	}
}

// TestStreaming: events pass one by one, and an upload passes before it is whole.
func TestStreaming(t *testing.T) {
	step := make(chan struct{})
	f := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/up" {
			first := make([]byte, 5)
			_, _ = io.ReadFull(r.Body, first)
			close(step) // the rest is sent only now
			rest, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s %d", first, len(rest))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			<-step
		}
	})
	d := start(t, f, nil)
	resp, err := d.client().Get("http://door/model/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	in := bufio.NewReader(resp.Body)
	for i := range 3 {
		line, err := in.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
		_, _ = in.ReadString('\n')
		step <- struct{}{} // the next event is made only now
	}
	step = make(chan struct{})
	pr, pw := io.Pipe()
	go func() {
		_, _ = io.WriteString(pw, "first")
		<-step
		_, _ = pw.Write(make([]byte, 1<<20))
		_ = pw.Close()
	}()
	if _, text := d.ask("POST", "/model/v1/up", pr); !strings.Contains(text, "first 1048576") {
		t.Error(text)
	}
}

// TestServiceFailures: none of them tells the secret, and what broke off is not
// taken for whole.
func TestServiceFailures(t *testing.T) {
	f := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/gzip":
			w.Header().Set("Content-Encoding", "gzip")
		case "/api/v1/slow":
			<-r.Context().Done()
		case "/api/v1/half":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half"+canary[:10])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	d := start(t, f, func(c *services.Config, s *services.Service) {
		c.Idle, c.Body = 300*time.Millisecond, 1<<10
		s.Place, s.Field, s.Prefix = services.Query, "key", ""
	})
	for path, want := range map[string]int{"/model/v1/gzip": 502, "/model/v1/slow": 502} {
		if resp, text := d.ask("GET", path, nil); resp.StatusCode != want {
			t.Errorf("%s: %s", path, text)
		}
	}
	if resp, text := d.ask("POST", "/model/v1/x", strings.NewReader(strings.Repeat("x", 2<<10))); resp.StatusCode != 413 {
		t.Error(text)
	}
	resp, err := d.client().Get("http://door/model/v1/half")
	if err == nil {
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil || string(b) != "half" {
			t.Errorf("half an answer: %q, %v", b, err)
		}
	}
	f.Close()
	if resp, text := d.ask("GET", "/model/v1/x", nil); resp.StatusCode != 502 || strings.Contains(text, "key=") {
		t.Error(text)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done["allowed"] != 0 || d.done["failed"] < 3 {
		t.Errorf("%v", d.done)
	}
}

// TestServiceIsWhoItIs: another certificate, or a plain name that leads inside, is
// not given the secret.
func TestServiceIsWhoItIs(t *testing.T) {
	f := upstream(t, func(http.ResponseWriter, *http.Request) {})
	d := start(t, f, func(c *services.Config, _ *services.Service) { c.Roots = x509.NewCertPool() })
	if resp, text := d.ask("GET", "/model/v1/x", nil); resp.StatusCode != 502 || !strings.Contains(text, "certificate") {
		t.Error(text)
	}
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "plain") }))
	t.Cleanup(plain.Close)
	port := plain.Listener.Addr().(*net.TCPAddr).Port
	named := start(t, f, func(_ *services.Config, s *services.Service) { s.Base = fmt.Sprintf("http://tickets.test:%d", port) })
	if resp, text := named.ask("GET", "/model/v1/x", nil); resp.StatusCode != 403 || !strings.Contains(text, "leads to 127.0.0.1 (loopback)") {
		t.Error(text)
	}
	listed := start(t, f, func(_ *services.Config, s *services.Service) { s.Base = plain.URL })
	if resp, text := listed.ask("GET", "/model/v1/x", nil); resp.StatusCode != 200 {
		t.Error(text)
	}
}

// TestD5ServicesSlowClients (case D5): clients that say nothing, and a thousand
// that ask at once.
func TestD5ServicesSlowClients(t *testing.T) {
	f := upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	f.requests = make(chan *http.Request, 2000)
	plain := httptest.NewServer(f.Config.Handler) // a thousand handshakes are not this test's matter
	t.Cleanup(plain.Close)
	d := start(t, f, func(_ *services.Config, s *services.Service) { s.Base = plain.URL + "/api" })
	for range 200 {
		c, err := net.Dial("unix", d.socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, "POST /model/v1/x HTTP/1.1\r\nHost: door\r\nContent-Length: 10\r\n\r\nslow")
	}
	client := d.client()
	failed := make(chan error, 1000)
	for range 1000 {
		go func() {
			resp, err := client.Get("http://door/model/v1/x")
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != 200 {
					err = errors.New(resp.Status)
				}
			}
			failed <- err
		}()
	}
	for range 1000 {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
}
