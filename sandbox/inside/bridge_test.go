package inside

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// freePort is one that nobody listened on a moment ago.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// bridged runs a bridge to an HTTP server on a Unix socket; without a handler
// nobody listens there.
func bridged(t testing.TB, h http.Handler) (address string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	if h != nil {
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: h}
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(l) }()
		t.Cleanup(func() {
			_ = srv.Close()
			<-ended
		})
	}
	port := freePort(t)
	b, err := bridge([]Bridge{{Port: port, Socket: socket}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func TestBridgeCarriesBothWays(t *testing.T) {
	address := bridged(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	long := strings.Repeat("bridge ", 1<<17)
	resp, err := http.Post("http://"+address, "text/plain", strings.NewReader(long))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil || string(got) != long {
		t.Errorf("%d of %d bytes came back: %v", len(got), len(long), err)
	}
}

// TestBridgePassesTheEndOn: a client that has said everything still gets its answer.
func TestBridgePassesTheEndOn(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		said, _ := io.ReadAll(c) // returns at the client's end only
		_, _ = fmt.Fprintf(c, "you said %s", said)
		_ = c.Close()
	}()
	tl, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tl.Close() }()
	go func() {
		c, err := tl.Accept()
		if err == nil {
			carry(context.Background(), c, Bridge{Socket: socket})
		}
	}()
	c, err := net.Dial("tcp", tl.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(c, "all")
	_ = c.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "you said all" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestBridgePortTaken: whoever has the port first, the error says so.
func TestBridgePortTaken(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	if _, err := bridge([]Bridge{{Port: freePort(t), Socket: "/a"}, {Port: port, Socket: "/b.sock"}}); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "b.sock") {
		t.Errorf("a taken port: %v", err)
	}
}

func TestBridgeToADeadSupervisor(t *testing.T) {
	address := bridged(t, nil)
	resp, err := http.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if !strings.Contains(resp.Status, "502 proctor-agent: the supervisor does not answer") {
		t.Errorf("%q", resp.Status)
	}
}

// TestBridgeThousandsOfConnections (case D5): those that there is room for are
// answered while all are open, the others are told at once.
func TestBridgeThousandsOfConnections(t *testing.T) {
	address := bridged(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	const clients = 3000
	answers := make(chan string, clients)
	var all sync.WaitGroup
	release := make(chan struct{})
	gate := make(chan struct{}, 200) // a listen queue's length at once
	for range clients {
		all.Go(func() {
			gate <- struct{}{}
			c, err := net.Dial("tcp", address)
			if err != nil {
				<-gate
				answers <- err.Error()
				return
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: door\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			<-gate
			if err != nil {
				answers <- err.Error()
				return
			}
			answers <- strconv.Itoa(resp.StatusCode)
			<-release // stays open until all are answered
		})
	}
	got := map[string]int{}
	for range clients {
		got[<-answers]++
	}
	close(release)
	all.Wait()
	if got["200"] < 1000 || got["200"]+got["503"] < clients*99/100 {
		t.Errorf("answers: %v", got)
	}
}

// TestBridgeTooMany: where there is no room, a client is told so when it asks.
func TestBridgeTooMany(t *testing.T) {
	socket, port := filepath.Join(t.TempDir(), "s"), freePort(t)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	b, err := bridge([]Bridge{{Port: port, Socket: socket}})
	if err != nil {
		t.Fatal(err)
	}
	b.room = make(chan struct{}, 2)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); b.run(ctx) }()
	defer func() { cancel(); <-ended }()
	for i := range 3 {
		c, err := net.Dial("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if i < 2 {
			if _, err := l.Accept(); err != nil { // so that it has its place
				t.Fatal(err)
			}
			continue
		}
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("answered before it asked: %d, %v", n, err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: door\r\n\r\n"); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(c); err != nil || !strings.Contains(string(got), "503 proctor-agent: this container has too many") {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestParseBridges(t *testing.T) {
	good, err := ParseBridges([]string{"3128=/run/proctor/proxy.sock"})
	if err != nil || len(good) != 1 || good[0] != (Bridge{3128, "/run/proctor/proxy.sock"}) {
		t.Errorf("%v, %v", good, err)
	}
	for _, bad := range []string{"", "3128", "0=/s", "65536=/s", "x=/s", "3128=s", "-1=/s", "+1=/s"} {
		if _, err := ParseBridges([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
