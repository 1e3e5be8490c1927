package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/door/doortest"
)

// servers are a plain and a TLS server, each with a proxy that reaches it.
func servers(t testing.TB) (plain, secure *httptest.Server, socket, secured string) {
	t.Helper()
	plain = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(plain.Close)
	secure = httptest.NewTLSServer(plain.Config.Handler)
	t.Cleanup(secure.Close)
	socket, end := open(t, plain.Listener.Addr().String())
	t.Cleanup(end)
	secured, endSecured := open(t, secure.Listener.Addr().String())
	t.Cleanup(endSecured)
	return plain, secure, socket, secured
}

// tunnelTo opens a tunnel and shakes hands through it.
func tunnelTo(socket, address string) (net.Conn, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", address)
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), &http.Request{Method: http.MethodConnect})
	if err == nil && resp.StatusCode != 200 {
		err = fmt.Errorf("%s", resp.Status)
	}
	if err == nil {
		err = tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake()
	}
	if err != nil {
		_ = c.Close()
	}
	return c, err
}

// TestSoak: thousands of requests, refusals and tunnels later the process holds
// no more goroutines, descriptors and memory than after a few.
func TestSoak(t *testing.T) {
	plain, secure, socket, secured := servers(t)
	once := func(head string) {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, head+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	}
	doortest.Soak(t, func(n int) {
		for i := range n {
			once("GET " + plain.URL + "/")
			once("CONNECT other.test:443")
			once("GET http://other.test/")
			if i%10 == 0 {
				c, err := tunnelTo(secured, secure.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				_ = c.Close()
			}
		}
	})
}

// TestThousandTunnels: a thousand open tunnels take a bounded memory each, and
// leave nothing.
func TestThousandTunnels(t *testing.T) { thousandTunnels(t) }

// BenchmarkThousandTunnels is what one of them takes.
func BenchmarkThousandTunnels(b *testing.B) {
	for range b.N {
		thousandTunnels(b)
	}
}

func thousandTunnels(t testing.TB) {
	t.Helper()
	_, secure, _, secured := servers(t)
	doortest.Thousand(t, 160<<10, func() (func(), error) {
		c, err := tunnelTo(secured, secure.Listener.Addr().String())
		return func() { _ = c.Close() }, err
	})
}
