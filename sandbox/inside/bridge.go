package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bridge is one loopback port of the container, and the supervisor's socket
// that every connection to it is carried to.
type Bridge struct {
	Port   int
	Socket string // absolute path
}

// ParseBridges reads PORT=SOCKET for each.
func ParseBridges(all []string) ([]Bridge, error) {
	var bridges []Bridge
	for _, s := range all {
		port, socket, ok := strings.Cut(s, "=")
		n, err := strconv.ParseUint(port, 10, 16)
		if !ok || err != nil || n == 0 || !filepath.IsAbs(socket) {
			return nil, fmt.Errorf("--bridge %q is not PORT=SOCKET", s)
		}
		bridges = append(bridges, Bridge{Port: int(n), Socket: socket})
	}
	return bridges, nil
}

const (
	// bridgeBuffer is what each direction of a connection holds, in bytes.
	bridgeBuffer = 16 << 10
	// bridgeMost bounds the connections of all bridges together: each has two
	// descriptors and two buffers, and they are the container's own memory.
	bridgeMost = 4096
	// bridgeSpare is how many descriptors are left for everything else here.
	bridgeSpare = 64
	// bridgeDial bounds how long the supervisor's socket may take to answer.
	bridgeDial = 10 * time.Second
	// refusalTimeout bounds how long a client may take to ask, and how long to
	// read that it is refused.
	refusalTimeout = 2 * time.Second
	// bridgeRefused is how many of those that there is no room for are heard at
	// a time before they are told so.
	bridgeRefused = 16
)

// bridging listens for all bridges. It carries bytes and reads none: the doors
// behind the sockets are the supervisor's, and judge for themselves.
type bridging struct {
	listeners []net.Listener
	bridges   []Bridge
	room      chan struct{} // one for each connection that may be open
	refused   chan struct{} // one for each that may be heard without room
	open      sync.WaitGroup
}

// bridge listens on every port before there is a payload, so that nobody in the
// container has taken one: a port that is taken is an error.
func bridge(bridges []Bridge) (*bridging, error) {
	if len(bridges) == 0 {
		return &bridging{}, nil
	}
	if err := loopbackUp(); err != nil {
		return nil, err
	}
	b := &bridging{bridges: bridges, room: make(chan struct{}, bridgeRoom()), refused: make(chan struct{}, bridgeRefused)}
	for _, one := range bridges {
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(one.Port)))
		if err != nil {
			b.close()
			return nil, fmt.Errorf("bridge to %s: %w", filepath.Base(one.Socket), err)
		}
		b.listeners = append(b.listeners, l)
	}
	return b, nil
}

// bridgeRoom is how many connections the limit of open files has room for.
func bridgeRoom() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur > 2*bridgeMost+bridgeSpare {
		return bridgeMost
	}
	return max(1, (int(l.Cur)-bridgeSpare)/2)
}

// run carries connections until ctx ends.
func (b *bridging) run(ctx context.Context) {
	for i, l := range b.listeners {
		b.open.Go(func() { b.accept(ctx, l, b.bridges[i]) })
	}
	<-ctx.Done()
	b.close()
	b.open.Wait()
}

func (b *bridging) close() {
	for _, l := range b.listeners {
		_ = l.Close()
	}
}

func (b *bridging) accept(ctx context.Context, l net.Listener, to Bridge) {
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors, or the client is gone already
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		select {
		case b.room <- struct{}{}:
			b.open.Go(func() {
				defer func() { <-b.room }()
				carry(ctx, c, to)
			})
		default:
			b.noRoom(c)
		}
	}
}

func (b *bridging) noRoom(c net.Conn) {
	const why = "this container has too many connections open"
	select {
	case b.refused <- struct{}{}:
		b.open.Go(func() {
			defer func() { <-b.refused }()
			hear(c)
			refuse(c, 503, why)
		})
	default:
		refuse(c, 503, why)
	}
}

// carry joins a client and the supervisor's socket, both ways, until both are
// done or one fails.
func carry(ctx context.Context, client net.Conn, to Bridge) {
	d := net.Dialer{Timeout: bridgeDial}
	door, err := d.DialContext(ctx, "unix", to.Socket)
	if err != nil {
		hear(client)
		refuse(client, 502, "the supervisor does not answer at "+filepath.Base(to.Socket))
		return
	}
	ended := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = door.Close()
	})
	defer ended()
	back := make(chan struct{})
	go func() {
		defer close(back)
		pour(client, door)
	}()
	pour(door, client)
	<-back
	_ = client.Close()
	_ = door.Close()
}

// pour copies until the end, and passes the end on. A failure ends both ways:
// a half that nobody reads must not hold the other.
func pour(to, from net.Conn) {
	// Hidden behind plain interfaces, so that no pipe is taken for each
	// direction (splice(2)): descriptors are what there is least of here.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, bridgeBuffer))
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = to.Close()
		_ = from.Close()
	}
}

// hear waits for a question that will be refused: an answer before it is none to
// some clients, and a close before it was read takes the answer away from others.
func hear(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(refusalTimeout))
	_, _ = c.Read(make([]byte, bridgeBuffer))
}

// refuse answers in the language that every door speaks, so that npm, curl and
// whatever else came here says why.
func refuse(c net.Conn, status int, why string) {
	_ = c.SetDeadline(time.Now().Add(refusalTimeout))
	body := fmt.Sprintf("{\"error\":\"proctor-agent: %s\"}\n", why)
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %d proctor-agent: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, why, len(body), body)
	_ = c.Close()
}

// loopbackUp makes sure that the loopback interface is up. The runtimes do so
// for an own network namespace; where one did not, only a container with the
// right to could.
func loopbackUp() error {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	if lo.Flags&net.FlagUp != 0 {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("loopback is down, and cannot be brought up: %w", err)
	}
	return nil
}
