package registry_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/registry"
)

// onSocket is a client of a Unix socket.
func onSocket(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
}

// nginx serves a directory on a Unix socket; "" where there is no nginx.
func nginx(b *testing.B, dir, root string) string {
	b.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		return ""
	}
	socket, conf := filepath.Join(dir, "n"), filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off; master_process off; pid %s/pid; error_log %s/error; user root;
events {} http { access_log off; sendfile on; client_body_temp_path %s/t; proxy_temp_path %s/t; fastcgi_temp_path %s/t; uwsgi_temp_path %s/t; scgi_temp_path %s/t;
server { listen unix:%s; location / { root %s; } } }`, dir, dir, dir, dir, dir, dir, dir, socket, root)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(path, "-c", conf, "-p", dir)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		if c, err := net.Dial("unix", socket); err == nil {
			_ = c.Close()
			return socket
		}
	}
	b.Fatal("nginx does not listen")
	return ""
}

type noRegistry struct{}

func (noRegistry) Registry() string { return "http://registry.test" }
func (noRegistry) Document(context.Context, string) (*packages.Document, error) {
	return nil, &packages.Error{Reason: packages.Unreachable}
}

type noRules struct{}

func (noRules) PackageDenied(string) (string, bool)  { return "", false }
func (noRules) PackageAllowed(string) (string, bool) { return "", false }

// serveOne serves one approved package of the given bytes on a Unix socket.
func serveOne(tb testing.TB, body []byte) (dir, socket string) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	id := packages.Identity{Registry: "http://registry.test", Name: "a", Version: "1.0.0", Integrity: integrity(body)}
	cache, err := registry.OpenCache(dir, registry.MaxCache)
	if err != nil {
		tb.Fatal(err)
	}
	d, err := registry.New(registry.Config{
		Registry: noRegistry{}, Cache: cache, Rules: noRules{},
		Transport: answering(func(*http.Request) *http.Response {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(bytes.NewReader(body))}
		}),
		Decide: func(id packages.Identity) packages.Decision {
			return packages.Decision{Allowed: id.Name == "a", Reason: packages.NotApproved}
		},
		Named: func(name string) ([]packages.Identity, error) {
			if name != id.Name {
				return nil, nil
			}
			return []packages.Identity{id}, nil
		},
		Row:     func(string, any) error { return nil },
		Refused: func(door.Refusal) error { return nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, l) }()
	tb.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, cache.Close()); err != nil {
			tb.Error(err)
		}
	})
	return dir, socket
}

// BenchmarkTarball is an archive from the cache over a Unix socket, hashed each
// time, beside nginx sending the same file over the same kind of socket.
func BenchmarkTarball(b *testing.B) {
	for _, size := range []int{64 << 10, 4 << 20, 64 << 20} {
		body := make([]byte, size)
		_, _ = rand.Read(body)
		dir, socket := serveOne(b, body)
		get := func(b *testing.B, socket, path string) {
			c := onSocket(socket)
			b.SetBytes(int64(size))
			for b.Loop() {
				resp, err := c.Get("http://door" + path)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if err != nil || n != int64(size) {
					b.Fatal(n, err)
				}
			}
		}
		name := fmt.Sprintf("%dKiB", size>>10)
		b.Run(name+"/door", func(b *testing.B) { get(b, socket, "/a/-/a-1.0.0.tgz") })
		if err := os.WriteFile(filepath.Join(dir, "file"), body, 0o644); err != nil {
			b.Fatal(err)
		}
		if n := nginx(b, dir, dir); n != "" {
			b.Run(name+"/nginx", func(b *testing.B) { get(b, n, "/file") })
		}
	}
}

type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }
