package services_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/door/doortest"
	"github.com/proctor-project/proctor/sidecar/services"
)

// streams is a service that answers at once, or with events until its client is
// gone; its door records nothing.
func streams(t testing.TB) *counter {
	t.Helper()
	f := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/events" {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, r.Header.Get("Authorization"))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 0\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	go func() {
		for range f.requests {
		}
	}()
	t.Cleanup(func() { close(f.requests) })
	return start(t, f, func(c *services.Config, _ *services.Service) { c.Row = func(string, any) error { return nil } })
}

// begin asks, and reads the answer's head and its first line.
func (c *counter) begin(head, body string) (net.Conn, *http.Response, error) {
	conn, err := net.Dial("unix", c.socket)
	if err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 9)
	return conn, resp, nil
}

// TestServicesSoak: thousands of requests, uploads, refusals and streams that
// their clients leave later the process holds no more than after a few.
func TestServicesSoak(t *testing.T) {
	c := streams(t)
	upload := strings.Repeat("x", 64<<10)
	once := func(head, body string, want int) {
		conn, resp, err := c.begin(head, body)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if resp.StatusCode != want {
			t.Fatalf("%s: %s", head, resp.Status)
		}
	}
	doortest.Soak(t, func(n int) {
		for i := range n {
			once("GET /model/v1/x", "", 200)
			once("DELETE /model/v1/x", "", 403)
			once("GET /other/v1/x", "", 403)
			if i%10 == 0 {
				once("POST /model/v1/x", upload, 200)
				once("GET /model/v1/events", "", 200)
			}
		}
		c.mu.Lock()
		c.rows = nil
		c.mu.Unlock()
	})
}

// TestThousandStreams: a thousand open streams of events take a bounded memory
// each, and leave nothing.
func TestThousandStreams(t *testing.T) { thousandStreams(t) }

// BenchmarkThousandStreams is what one of them takes.
func BenchmarkThousandStreams(b *testing.B) {
	for range b.N {
		thousandStreams(b)
	}
}

func thousandStreams(t testing.TB) {
	t.Helper()
	c := streams(t)
	doortest.Thousand(t, 200<<10, func() (func(), error) {
		conn, resp, err := c.begin("GET /model/v1/events", "")
		if err == nil && resp.StatusCode != 200 {
			err = fmt.Errorf("%s", resp.Status)
		}
		return func() { _ = conn.Close() }, err
	})
}
