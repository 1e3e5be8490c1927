package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/egress"
)

// open serves a proxy that reaches one address; the returned function ends it.
func open(t testing.TB, address string) (socket string, end func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	p, err := egress.New(egress.Config{
		Rules:  egress.Rules{Allow: patterns(t, address), Now: time.Now, Acts: func() ([]egress.Act, error) { return nil, nil }},
		Dialer: egress.Dialer{Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, nil }},
		Row:    func(string, any) error { return nil }, Refused: func(door.Refusal) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx, l) }()
	return socket, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	}
}

// TestSoak: ten thousand requests, refusals and tunnels later the process has no
// more goroutines and descriptors, and hardly more memory, than after a hundred.
func TestSoak(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(plain.Config.Handler)
	t.Cleanup(secure.Close)
	socket, end := open(t, plain.Listener.Addr().String())
	defer end()
	secured, endSecured := open(t, secure.Listener.Addr().String())
	defer endSecured()
	once := func(socket, head string, secure bool) {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, head+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if !secure {
			_, _ = io.Copy(io.Discard, c)
			return
		}
		if resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), &http.Request{Method: "CONNECT"}); err != nil || resp.StatusCode != 200 {
			t.Fatal(err)
		}
		_ = tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake()
	}
	rounds := func(n int) {
		for range n {
			once(socket, "GET "+plain.URL+"/", false)
			once(socket, "CONNECT other.test:443", false)
			once(socket, "GET http://other.test/", false)
		}
		for range n / 10 {
			once(secured, "CONNECT "+secure.Listener.Addr().String(), true)
		}
	}
	state := func() (goroutines, files int, heap uint64) {
		for until := time.Now().Add(5 * time.Second); time.Now().Before(until) && runtime.NumGoroutine() > 40; runtime.Gosched() {
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fds, _ := os.ReadDir("/proc/self/fd")
		return runtime.NumGoroutine(), len(fds), m.HeapInuse
	}
	rounds(100)
	g1, f1, h1 := state()
	rounds(3000)
	g2, f2, h2 := state()
	if g2 > g1+20 || f2 > f1+20 || h2 > h1+(8<<20) {
		t.Errorf("goroutines %d -> %d, descriptors %d -> %d, heap %d -> %d", g1, g2, f1, f2, h1, h2)
	}
}

// BenchmarkProxied is one plain HTTP request through the door, beside the same
// through nginx as a proxy on the same kind of socket, and without either.
func BenchmarkProxied(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	b.Cleanup(srv.Close)
	address := srv.Listener.Addr().String()
	get := func(b *testing.B, c *http.Client, url string) {
		for b.Loop() {
			resp, err := c.Get(url)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != 200 {
				b.Fatal(resp.Status)
			}
		}
	}
	on := func(socket string, proxy bool) *http.Client {
		t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}
		if proxy {
			t.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy:1"})
		}
		return &http.Client{Transport: t}
	}
	socket, end := open(b, address)
	b.Cleanup(end)
	b.Run("direct", func(b *testing.B) { get(b, srv.Client(), srv.URL) })
	b.Run("door", func(b *testing.B) { get(b, on(socket, true), srv.URL) })
	path, err := exec.LookPath("nginx")
	if err != nil {
		return
	}
	dir := b.TempDir()
	conf := filepath.Join(dir, "c")
	text := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error; user root;
events {} http { access_log off; client_body_temp_path %[1]s/t; proxy_temp_path %[1]s/t; fastcgi_temp_path %[1]s/t; uwsgi_temp_path %[1]s/t; scgi_temp_path %[1]s/t;
server { listen unix:%[2]s.n; location / { proxy_pass http://%[3]s; } } }`, dir, socket, address)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(path, "-c", conf, "-p", dir)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		if c, err := net.Dial("unix", socket+".n"); err == nil {
			_ = c.Close()
			break
		}
	}
	b.Run("nginx", func(b *testing.B) { get(b, on(socket+".n", false), "http://nginx/") })
}
