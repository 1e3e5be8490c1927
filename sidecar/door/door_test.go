package door_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/requests"
)

// desk is a door that is being served, and what it recorded.
type desk struct {
	*testing.T
	socket string
	rows   chan string
	lost   chan struct{}
	full   chan struct{} // closed: the record takes no more
}

func serve(t *testing.T) *desk {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // short: a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &desk{t, filepath.Join(dir, "s"), make(chan string, 10_000), make(chan struct{}), make(chan struct{})}
	d, err := door.New(door.Config{
		Session: door.Session{Session: "aaaaaaaaaaaa", Role: "agent", Step: "serve", Product: "/p"},
		Record: func(kind string, _ any) error {
			select {
			case <-s.full:
				return fmt.Errorf("full")
			default:
				s.rows <- kind
				return nil
			}
		},
		Connected: func() {}, Lost: func() { close(s.lost) },
		Desk: &fakeDesk{requests.NewBook(time.Now)},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *desk) dial() net.Conn {
	s.Helper()
	c, err := net.Dial("unix", s.socket)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a question and returns the answer's status; 0 is none.
func ask(c net.Conn, path string, limit time.Duration) int {
	_ = c.SetDeadline(time.Now().Add(limit))
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: s\r\n\r\n", path); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	return resp.StatusCode
}

// TestFloodOfConnections (case D5, B3): more clients than there is room for, that ask
// nothing or half a question, hold up nobody; the lifeline is not one of them.
func TestFloodOfConnections(t *testing.T) {
	const soon = 4 * time.Second // a door that waited for them would take their 5
	s := serve(t)
	life := s.dial()
	if got := ask(life, "/v1/lifeline", soon); got != http.StatusOK {
		t.Fatalf("the lifeline is answered with %d", got)
	}
	for i := range door.MaxConnections + 100 {
		c := s.dial()
		if i%2 == 0 {
			_, _ = c.Write([]byte("GET /v1/session HTTP/1.1\r\nHost"))
		}
	}
	for range 20 {
		if got := ask(s.dial(), "/v1/session", soon); got != http.StatusOK {
			t.Fatalf("answered with %d within %s", got, soon)
		}
	}
	if got := ask(s.dial(), "/v1/lifeline", soon); got != http.StatusConflict {
		t.Errorf("a second lifeline is answered with %d", got)
	}
	select {
	case <-s.lost:
		t.Error("the flood took the lifeline")
	default:
	}
	_ = life.Close()
	select {
	case <-s.lost:
	case <-time.After(10 * time.Second):
		t.Error("the end of the lifeline was not noticed")
	}
}

// TestNothingWithoutItsRow: an answer that cannot be recorded is a refusal.
func TestNothingWithoutItsRow(t *testing.T) {
	s := serve(t)
	for path, want := range map[string]int{"/v1/session": http.StatusOK, "/v1/approve": http.StatusNotFound} {
		if got := ask(s.dial(), path, 10*time.Second); got != want || len(s.rows) != 1 {
			t.Errorf("%s: answered with %d, %d rows", path, got, len(s.rows))
		}
		<-s.rows
	}
	close(s.full)
	for _, path := range []string{"/v1/session", "/v1/approve", "/v1/lifeline"} {
		if got := ask(s.dial(), path, 10*time.Second); got != http.StatusServiceUnavailable {
			t.Errorf("%s, with a full record: answered with %d", path, got)
		}
	}
}
