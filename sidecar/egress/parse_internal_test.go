package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// clientHello is what a client of the standard library says first.
func clientHello(t testing.TB, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	}()
	buf := make([]byte, 8<<10)
	n, err := server.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	_ = client.Close()
	<-done
	return buf[:n]
}

func TestReadHello(t *testing.T) {
	for _, name := range []string{"a.example", strings.Repeat("a.", 100) + "b", ""} {
		raw := clientHello(t, name)
		got, taken, err := readHello(bytes.NewReader(append(bytes.Clone(raw), "more"...)))
		if err != nil || got != name || !bytes.HasPrefix(append(bytes.Clone(raw), "more"...), taken) || len(taken) < len(raw) {
			t.Errorf("%q: %q, %d of %d bytes, %v", name, got, len(taken), len(raw), err)
		}
		if _, taken, err := readHello(bytes.NewReader(raw[:len(raw)-1])); err == nil || len(taken) != len(raw)-1 {
			t.Errorf("half a ClientHello: %d bytes, %v", len(taken), err)
		}
	}
}

func FuzzReadHello(f *testing.F) {
	f.Add(clientHello(f, "a.example"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		name, taken, err := readHello(bytes.NewReader(b))
		if !bytes.HasPrefix(b, taken) || len(taken) > maxHello {
			t.Errorf("%d bytes were taken of %d", len(taken), len(b))
		}
		if err != nil && name != "" {
			t.Errorf("%q, %v", name, err)
		}
	})
}

func TestResolverReadsTheHostsFiles(t *testing.T) {
	if got := readServers([]byte("# nameserver 192.0.2.9\nnameserver 192.0.2.1\nsearch corp.test\nnameserver ::1 ; x\nnameserver bad\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n")); !cmp.Equal(got, []string{"192.0.2.1:53", "[::1]:53", "192.0.2.2:53"}) {
		t.Errorf("%v", got)
	}
	r := NewResolver(nil, []byte("127.0.0.1 localhost\n10.0.0.5\tDB.test db # comment\nx y\n"))
	got, err := r.Lookup(context.Background(), "db.test")
	if err != nil || len(got) != 1 || got[0].String() != "10.0.0.5" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := r.Lookup(context.Background(), "other.test"); err == nil {
		t.Error("a name is resolved without a name server")
	}
}
