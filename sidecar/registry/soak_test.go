package registry_test

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/door/doortest"
)

// begin asks for a path, and reads the answer's head and its first bytes.
func begin(socket, path string) (net.Conn, *http.Response, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return nil, nil, err
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nUser-Agent: npm/10\r\nConnection: close\r\n\r\n", path)
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 512), nil)
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 100)
	return c, resp, nil
}

// TestNpmSoak: thousands of documents, archives, refusals and clients that go
// away later the process holds no more than after a few.
func TestNpmSoak(t *testing.T) {
	large := make([]byte, 512<<10)
	_, _ = rand.Read(large)
	_, socket := serveOne(t, large)
	once := func(path string, want int, whole bool) {
		c, resp, err := begin(socket, path)
		if err != nil {
			t.Fatal(err)
		}
		if whole {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		_ = c.Close()
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s: %s, %v", path, resp.Status, err)
		}
	}
	doortest.Soak(t, func(n int) {
		for i := range n {
			once("/a", 404, true) // random bytes are no archive, which is found out each time
			once("/other/-/other-1.0.0.tgz", 403, true)
			once(fmt.Sprintf("/other-%d", i), 403, true)
			once("/-/v1/search?text=a", 200, true)
			once("/a/-/a-1.0.0.tgz", 200, i%10 == 0) // most clients go away in the middle
		}
	})
}

// TestThousandArchives: a thousand archives that are being sent at once take a
// bounded memory each, however large they are, and leave nothing.
func TestThousandArchives(t *testing.T) { thousandArchives(t) }

// BenchmarkThousandArchives is what one of them takes.
func BenchmarkThousandArchives(b *testing.B) {
	for range b.N {
		thousandArchives(b)
	}
}

func thousandArchives(t testing.TB) {
	t.Helper()
	large := make([]byte, 8<<20)
	_, _ = rand.Read(large)
	_, socket := serveOne(t, large)
	doortest.Thousand(t, 160<<10, func() (func(), error) {
		c, resp, err := begin(socket, "/a/-/a-1.0.0.tgz")
		if err == nil && resp.StatusCode != 200 {
			err = fmt.Errorf("%s", resp.Status)
		}
		return func() { _ = c.Close() }, err
	})
}
