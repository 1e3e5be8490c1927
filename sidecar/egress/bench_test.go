package egress_test

import (
	"context"
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
