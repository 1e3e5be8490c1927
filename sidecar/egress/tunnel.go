package egress

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// tunnelBuffer is what each direction of a tunnel holds, in bytes: a TLS record.
const tunnelBuffer = 16 << 10

// tunnel carries both ways until both have ended, ctx ends, or nothing moved in
// either direction for the idle time. It returns how many bytes went out and
// came in; both connections are closed.
func tunnel(ctx context.Context, client, host net.Conn, idle time.Duration) (out, in int64) {
	t := &carried{idle: idle}
	t.moved.Store(time.Now().UnixNano())
	end := func() {
		_ = client.Close()
		_ = host.Close()
	}
	stop := context.AfterFunc(ctx, end)
	defer stop()
	back := make(chan struct{})
	go func() {
		defer close(back)
		in = t.pour(client, host, end)
	}()
	out = t.pour(host, client, end)
	<-back
	end()
	return out, in
}

type carried struct {
	idle  time.Duration
	moved atomic.Int64 // when a byte last moved, in either direction
}

// pour copies until from ends, and passes the end on; a failure ends both ways.
func (t *carried) pour(to, from net.Conn, end func()) (n int64) {
	buf := make([]byte, tunnelBuffer)
	for {
		_ = from.SetReadDeadline(time.Now().Add(t.idle))
		got, err := from.Read(buf)
		if got > 0 {
			t.moved.Store(time.Now().UnixNano())
			_ = to.SetWriteDeadline(time.Now().Add(t.idle))
			wrote, werr := to.Write(buf[:got])
			n += int64(wrote)
			if werr != nil {
				end()
				return n
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Since(time.Unix(0, t.moved.Load())) < t.idle:
			// The other direction is alive.
		default:
			half, ok := to.(interface{ CloseWrite() error })
			if errors.Is(err, os.ErrDeadlineExceeded) || !ok || half.CloseWrite() != nil {
				end()
			}
			return n
		}
	}
}
