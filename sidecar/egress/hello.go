package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// maxHello bounds a ClientHello with its records, in bytes (RFC 8446, 4: a
// handshake message may be longer, no client's first is).
const maxHello = 64 << 10

// errRead ends the library's handshake when the ClientHello was read.
var errRead = errors.New("the ClientHello was read")

// readHello reads a TLS ClientHello and returns the server name in it, "" for
// none, with every byte that was taken from r.
func readHello(r io.Reader) (name string, taken []byte, err error) {
	var buf bytes.Buffer
	found := false
	conn := tls.Server(&helloConn{r: io.TeeReader(io.LimitReader(r, maxHello), &buf)}, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, found = hello.ServerName, true
			return nil, errRead
		},
	})
	err = conn.Handshake()
	if found {
		return name, buf.Bytes(), nil
	}
	return "", buf.Bytes(), fmt.Errorf("not a TLS ClientHello: %w", err)
}

// helloConn is a connection of which only reading is real: the library's
// answer to a handshake that ends early goes nowhere.
type helloConn struct{ r io.Reader }

func (c *helloConn) Read(p []byte) (int, error)       { return c.r.Read(p) }
func (c *helloConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *helloConn) Close() error                     { return nil }
func (c *helloConn) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (c *helloConn) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (c *helloConn) SetDeadline(time.Time) error      { return nil }
func (c *helloConn) SetReadDeadline(time.Time) error  { return nil }
func (c *helloConn) SetWriteDeadline(time.Time) error { return nil }

// unrecognizedName is a fatal alert (RFC 8446, 6.2): the client's TLS library
// says so instead of "connection reset".
func unrecognizedName() []byte { return []byte{21, 3, 3, 0, 2, 2, 112} }
