package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
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

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/egress"
	"github.com/proctor-project/proctor/sidecar/hosts"
)

// proxy is a door that is being served, and what it recorded.
type proxy struct {
	*testing.T
	socket string

	mu       sync.Mutex
	rows     []string
	refusals []door.Refusal
	names    map[string][]string // what a name leads to; the first answer is used up first
	acts     []egress.Act
	full     bool
	asked    int
}

func (p *proxy) lookup(_ context.Context, name string) ([]netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	answers := p.names[name]
	if len(answers) == 0 {
		return nil, errors.New("no such host")
	}
	if len(answers) > 1 {
		p.names[name] = answers[1:]
	}
	var all []netip.Addr
	for s := range strings.SplitSeq(answers[0], " ") {
		all = append(all, netip.MustParseAddr(s))
	}
	return all, nil
}

func patterns(t testing.TB, all ...string) []hosts.Pattern {
	t.Helper()
	var out []hosts.Pattern
	for _, s := range all {
		p, err := hosts.ParsePattern(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func start(t *testing.T, limits egress.Limits, allow, deny []string) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "p") // short: a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &proxy{T: t, socket: filepath.Join(dir, "s"), names: map[string][]string{}}
	server, err := egress.New(egress.Config{
		Rules: egress.Rules{
			Allow: patterns(t, allow...), Deny: patterns(t, deny...), Now: time.Now,
			Acts: func() ([]egress.Act, error) { p.mu.Lock(); defer p.mu.Unlock(); return p.acts, nil },
		},
		Dialer: egress.Dialer{Lookup: p.lookup},
		Row: func(kind string, _ any) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.full {
				return errors.New("full")
			}
			p.rows = append(p.rows, kind)
			return nil
		},
		Refused: func(r door.Refusal) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.full {
				return errors.New("full")
			}
			p.refusals = append(p.refusals, r)
			return nil
		},
		Limits: limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the proxy does not end")
		}
	})
	return p
}

func (p *proxy) dial() net.Conn {
	p.Helper()
	c, err := net.Dial("unix", p.socket)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

// ask sends a request's head and returns the answer.
func (p *proxy) ask(head string) (net.Conn, *http.Response, string) {
	p.Helper()
	c := p.dial()
	_, _ = io.WriteString(c, head+"\r\n\r\n")
	method, _, _ := strings.Cut(head, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		p.Fatalf("%q: %v", head, err)
	}
	if method == "CONNECT" && resp.StatusCode == 200 {
		return c, resp, ""
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return c, resp, string(body)
}

func (p *proxy) client() *http.Client {
	tr := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy:1"}),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", p.socket)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	p.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func portOf(t testing.TB, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

func hello(t *testing.T, secure bool) (address, port string) {
	t.Helper()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://elsewhere.test/", http.StatusFound)
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			_, _ = fmt.Fprintf(w, "host %s", r.Host)
		}
	})
	var srv *httptest.Server
	if secure {
		srv = httptest.NewTLSServer(h)
	} else {
		srv = httptest.NewServer(h)
	}
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String(), portOf(t, srv.URL)
}

// TestD4Listed is the positive control of the refusals below: what is listed is
// reached, by name, by wildcard and by address, over TLS and over plain HTTP.
func TestD4Listed(t *testing.T) {
	for _, secure := range []bool{true, false} {
		address, port := hello(t, secure)
		scheme := map[bool]string{true: "https://", false: "http://"}[secure]
		p := start(t, egress.Limits{}, []string{"a.test:" + port, "*.b.test:" + port, address}, nil)
		p.names["a.test"], p.names["x.b.test"] = []string{"127.0.0.1"}, []string{"127.0.0.1"}
		for _, host := range []string{"a.test", "A.TEST", "x.b.test", "127.0.0.1"} {
			resp, err := p.client().Get(scheme + host + ":" + port + "/")
			if err != nil {
				t.Errorf("%s%s: %v", scheme, host, err)
				continue
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != 200 || !strings.EqualFold(string(body), "host "+host+":"+port) {
				t.Errorf("%s%s: %s %q", scheme, host, resp.Status, body)
			}
		}
		if len(p.refusals) > 0 {
			t.Errorf("refused: %v", p.refusals)
		}
	}
}

// TestD4Refused (case D4): everything else is a 403 that says why, in the reason
// phrase and in the body, with the remedy where one can help.
func TestD4Refused(t *testing.T) {
	address, port := hello(t, true)
	_, plain := hello(t, false)
	p := start(t, egress.Limits{}, []string{"a.test:" + port, "inner.test:" + port, "mixed.test:" + port, "denied.test:" + port, "a.test:" + plain}, []string{"denied.test:" + port})
	for name, leads := range map[string]string{
		"a.test": "127.0.0.1", "inner.test": "10.1.2.3", "meta.test": "169.254.169.254", "mixed.test": "fd00::1 ::1 127.0.0.1 0.0.0.0 64:ff9b::7f00:1 100.64.0.1",
		"other.test": "127.0.0.1",
	} {
		p.names[name] = []string{leads}
	}
	for asked, why := range map[string]string{
		"other.test:" + port:         "not allowed. The operator can run:  proctor allow-host other.test:" + port,
		"sub.a.test:" + port:         "not allowed",
		"a.test:22":                  "not allowed. The operator can run:  proctor allow-host a.test:22",
		"denied.test:" + port:        "denied by the policy",
		"a.test:" + port:             "leads to 127.0.0.1 (loopback), which is not allowed itself. The operator can run:  proctor allow-host " + address,
		"inner.test:" + port:         "leads to 10.1.2.3 (private)",
		"mixed.test:" + port:         "which is not allowed itself",
		address:                      "not allowed. The operator can run:  proctor allow-host " + address,
		"169.254.169.254:80":         "not allowed",
		"[::ffff:127.0.0.1]:" + port: "an IPv4 address written as IPv6",
		"[::1]:" + port:              "not allowed",
		"2130706433:" + port:         "odd spelling",
		"0x7f000001:" + port:         "odd spelling",
		"0177.0.0.1:" + port:         "odd spelling",
		"127.1:" + port:              "odd spelling",
		"a.test.:" + port:            "ends with a dot",
		"\u0430.test:" + port:        "not plain ASCII",
		"xn--80a.test:" + port:       "not allowed",
		"a.test":                     "names no port",
	} {
		_, resp, body := p.ask("CONNECT " + asked + " HTTP/1.1\r\nHost: a.test:" + port)
		if resp.StatusCode != 403 || !strings.Contains(body, why) || !strings.Contains(resp.Status, "proctor: ") {
			t.Errorf("CONNECT %s: %q %q, want %q", asked, resp.Status, body, why)
		}
		var a door.Answer
		if err := json.Unmarshal([]byte(body), &a); err != nil || a.Error == "" || (a.Remedy == "") == strings.Contains(body, "operator can run") {
			t.Errorf("CONNECT %s: %q, %v", asked, body, err)
		}
		if strings.ContainsAny(asked, "\u0430[") || !strings.Contains(asked, ":") || strings.HasPrefix(asked, "a.test:"+port) {
			continue // no URL says it, or it is not the same without TLS
		}
		_, resp, body = p.ask("GET http://" + asked + "/ HTTP/1.1\r\nHost: a.test:" + port)
		if resp.StatusCode != 403 || !strings.Contains(body, why) {
			t.Errorf("GET http://%s: %q %q", asked, resp.Status, body)
		}
	}
	if _, resp, body := p.ask("GET http://a.test:" + plain + "/ HTTP/1.1\r\nHost: a.test"); resp.StatusCode != 403 || !strings.Contains(body, "leads to 127.0.0.1") {
		t.Errorf("plain HTTP to a name that leads inside: %q %q", resp.Status, body)
	}
	for _, row := range p.rows {
		if row == "proxy-connect" {
			t.Error("a tunnel was opened")
		}
	}
	if len(p.refusals) < 20 {
		t.Errorf("%d refusals were told", len(p.refusals))
	}
}

// TestD4Rebinding (case D4): a name is resolved once, and what was checked is
// what is dialled; the next answer is judged anew.
func TestD4Rebinding(t *testing.T) {
	address, port := hello(t, true)
	p := start(t, egress.Limits{}, []string{"a.test:" + port, address}, nil)
	p.names["a.test"] = []string{"127.0.0.1", "127.0.0.2"}
	resp, err := p.client().Get("https://a.test:" + port)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if p.asked != 1 {
		t.Errorf("the name was resolved %d times", p.asked)
	}
	if _, resp, body := p.ask("CONNECT a.test:" + port + " HTTP/1.1\r\nHost: x"); resp.StatusCode != 403 || !strings.Contains(body, "127.0.0.2") {
		t.Errorf("after the name has moved: %q %q", resp.Status, body)
	}
}

// TestTunnelNamesItsHost: a tunnel that was opened for one host carries TLS to
// no other, and nothing but TLS.
func TestTunnelNamesItsHost(t *testing.T) {
	address, port := hello(t, true)
	p := start(t, egress.Limits{}, []string{"a.test:" + port, address}, nil)
	p.names["a.test"] = []string{"127.0.0.1"}
	for _, c := range []struct {
		target, name string
		passes       bool
	}{
		{"a.test:" + port, "a.test", true},
		{"a.test:" + port, "A.test", true},
		{"a.test:" + port, "b.test", false},
		{"a.test:" + port, "", false},
		{address, "", true},
		{address, "a.test", false},
	} {
		conn, resp, _ := p.ask("CONNECT " + c.target + " HTTP/1.1\r\nHost: x")
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %s", c.target, resp.Status)
		}
		err := tls.Client(conn, &tls.Config{ServerName: c.name, InsecureSkipVerify: true}).Handshake()
		if (err == nil) != c.passes {
			t.Errorf("%s, named %q: %v", c.target, c.name, err)
		}
		if !c.passes && (err == nil || !strings.Contains(err.Error(), "unrecognized name")) {
			t.Errorf("%s, named %q: the client is told %v", c.target, c.name, err)
		}
	}
	before := len(p.refusals)
	conn, _, _ := p.ask("CONNECT a.test:" + port + " HTTP/1.1\r\nHost: x")
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	if got, _ := io.ReadAll(conn); strings.Contains(string(got), "host") {
		t.Errorf("plain text passed: %q", got)
	}
	if len(p.refusals) != before+1 || p.refusals[before].Reason != "the tunnel does not begin with TLS" {
		t.Errorf("refusals: %+v", p.refusals[before:])
	}
}

// TestActsOfTheLedger: what the operator says counts at once, denials first.
func TestActsOfTheLedger(t *testing.T) {
	address, port := hello(t, false)
	p := start(t, egress.Limits{}, []string{address, "policy.test:" + port}, nil)
	for _, n := range []string{"a.test", "policy.test", "x.wild.test"} {
		p.names[n] = []string{"127.0.0.1"}
	}
	act := func(pattern string, denied bool, expires time.Time) egress.Act {
		return egress.Act{Pattern: patterns(t, pattern)[0], Denied: denied, Expires: expires}
	}
	past, future := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	for _, c := range []struct {
		host string
		acts []egress.Act
		want string
	}{
		{"a.test", nil, "allow-host a.test:" + port},
		{"a.test", []egress.Act{act("a.test:"+port, false, time.Time{})}, ""},
		{"a.test", []egress.Act{act("a.test:"+port, false, future)}, ""},
		{"a.test", []egress.Act{act("a.test:"+port, false, past)}, "allowed until"},
		{"a.test", []egress.Act{act("a.test:1", false, time.Time{})}, "not allowed"},
		{"policy.test", []egress.Act{act("policy.test:"+port, true, time.Time{})}, "denied by the operator. The operator can run:  proctor allow-host policy.test:" + port},
		{"policy.test", []egress.Act{act("policy.test:"+port, true, past)}, ""},
		{"x.wild.test", []egress.Act{act("*.wild.test:"+port, false, time.Time{})}, ""},
		{"x.wild.test", []egress.Act{act("x.wild.test:"+port, false, time.Time{}), act("*.wild.test:"+port, true, time.Time{})}, "proctor revoke-host '*.wild.test:" + port + "'"},
		{"policy.test", []egress.Act{act("127.0.0.1:"+port, true, time.Time{})}, "leads to 127.0.0.1, which is denied by the operator"},
	} {
		p.mu.Lock()
		p.acts = c.acts
		p.mu.Unlock()
		_, resp, body := p.ask("GET http://" + c.host + ":" + port + "/ HTTP/1.1\r\nHost: x\r\nConnection: close")
		body = strings.ReplaceAll(body, `\u0026`, "&")
		if c.want == "" && resp.StatusCode != 200 || c.want != "" && (resp.StatusCode != 403 || !strings.Contains(body, c.want)) {
			t.Errorf("%s, %+v: %s %s, want %q", c.host, c.acts, resp.Status, body, c.want)
		}
	}
}

// TestPlainHTTPIsForwardedOnly: no redirect is followed, no header of the way
// there is passed on.
func TestPlainHTTPIsForwardedOnly(t *testing.T) {
	got := make(chan http.Header, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		http.Redirect(w, r, "http://elsewhere.test/", http.StatusFound)
	}))
	t.Cleanup(srv.Close)
	p := start(t, egress.Limits{}, []string{srv.Listener.Addr().String()}, nil)
	_, resp, _ := p.ask("GET " + srv.URL + "/x HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: Basic eA==\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nUpgrade: websocket\r\nX-Own: 2")
	if resp.StatusCode != http.StatusFound || resp.Header.Get("Location") != "http://elsewhere.test/" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	h := <-got
	for _, hop := range []string{"Proxy-Authorization", "X-Hop", "Upgrade", "X-Forwarded-For", "User-Agent", "Via"} {
		if _, ok := h[hop]; ok {
			t.Errorf("%s was passed on or added: %v", hop, h)
		}
	}
	if h.Get("X-Own") != "2" {
		t.Errorf("the client's own header is lost: %v", h)
	}
}

// TestD5Bounds (case D5): each bound answers or ends.
func TestD5Bounds(t *testing.T) {
	address, port := hello(t, true)
	_, plain := hello(t, false)
	p := start(t, egress.Limits{Hello: 100 * time.Millisecond, Idle: 200 * time.Millisecond, Body: 1 << 10, URL: 200, Tunnels: 8},
		[]string{address, "127.0.0.1:" + plain}, nil)
	base := "http://127.0.0.1:" + plain + "/"
	for head, want := range map[string]int{
		"GET " + base + " HTTP/1.1\r\nHost: x\r\nConnection: close":                                                                 200,
		"GET " + base + strings.Repeat("u", 300) + " HTTP/1.1\r\nHost: x":                                                           414,
		"GET " + base + " HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("h", 100<<10):                                                431,
		"POST " + base + " HTTP/1.1\r\nHost: x\r\nContent-Length: 99999":                                                            413,
		"GET / HTTP/1.1\r\nHost: x":                                                                                                 400,
		"GET https://127.0.0.1/ HTTP/1.1\r\nHost: x":                                                                                400,
		"GET http://user:pw@127.0.0.1:" + plain + "/ HTTP/1.1\r\nHost: x":                                                           400,
		"POST " + base + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" + strings.Repeat("b", 0x800) + "\r\n0": 413,
	} {
		if _, resp, body := p.ask(head); resp.StatusCode != want {
			t.Errorf("%.80q: %s %s, want %d", head, resp.Status, body, want)
		}
	}
	began := time.Now()
	silent, _, _ := p.ask("CONNECT " + address + " HTTP/1.1\r\nHost: x")
	if _, err := io.ReadAll(silent); err != nil || time.Since(began) > 3*time.Second {
		t.Errorf("a tunnel without a ClientHello: %v after %s", err, time.Since(began))
	}
	idle, _, _ := p.ask("CONNECT " + address + " HTTP/1.1\r\nHost: x")
	c := tls.Client(idle, &tls.Config{InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); time.Since(began) > 5*time.Second {
		t.Errorf("an idle tunnel: %v after %s", err, time.Since(began))
	}
	_ = port
}

// TestD5TooMany: one more than there is room for is told so at once.
func TestD5TooMany(t *testing.T) {
	address, _ := hello(t, true)
	p := start(t, egress.Limits{Tunnels: 4}, []string{address}, nil)
	for range 4 {
		if _, resp, _ := p.ask("CONNECT " + address + " HTTP/1.1\r\nHost: x"); resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
	}
	if _, resp, body := p.ask("CONNECT " + address + " HTTP/1.1\r\nHost: x"); resp.StatusCode != 503 || !strings.Contains(body, "too many") {
		t.Errorf("%s %s", resp.Status, body)
	}
}

// TestD5ThousandConnections (case D5): 1,000 tunnels at once, each answered,
// beside clients that say nothing.
func TestD5ThousandConnections(t *testing.T) {
	address, _ := hello(t, true)
	p := start(t, egress.Limits{}, []string{address}, nil)
	for range 100 {
		c := p.dial()
		_, _ = io.WriteString(c, "CONNECT slow")
	}
	const clients = 1000
	var all sync.WaitGroup
	release, failed := make(chan struct{}), make(chan error, clients)
	gate := make(chan struct{}, 50)
	var up sync.WaitGroup
	up.Add(clients)
	for range clients {
		all.Go(func() {
			gate <- struct{}{}
			c, err := net.Dial("unix", p.socket)
			if err == nil {
				defer func() { _ = c.Close() }()
				_ = c.SetDeadline(time.Now().Add(60 * time.Second))
				_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", address)
				var resp *http.Response
				if resp, err = http.ReadResponse(bufio.NewReaderSize(c, 64), &http.Request{Method: "CONNECT"}); err == nil && resp.StatusCode == 200 {
					err = tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake()
				} else if err == nil {
					err = errors.New(resp.Status)
				}
			}
			<-gate
			failed <- err
			up.Done()
			<-release
		})
	}
	up.Wait()
	close(release)
	all.Wait()
	for range clients {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
}

// TestNothingWithoutItsRow: what cannot be recorded is not answered.
func TestNothingWithoutItsRow(t *testing.T) {
	address, port := hello(t, false)
	p := start(t, egress.Limits{}, []string{address}, nil)
	p.full = true
	for _, head := range []string{"CONNECT " + address, "CONNECT other.test:443", "GET http://127.0.0.1:" + port + "/"} {
		if _, resp, body := p.ask(head + " HTTP/1.1\r\nHost: x"); resp.StatusCode != 503 {
			t.Errorf("%s: %s %s", head, resp.Status, body)
		}
	}
}
