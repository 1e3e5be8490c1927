package launch_test

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Addresses of a world, beside the loopback interface's own.
const (
	public4  = "1.2.3.4"
	public6  = "2600:1::1"
	private6 = "fd00::1"
	metadata = "169.254.169.254"
)

// world is a network of the test's own: a loopback interface that has public,
// private and metadata addresses, an HTTP and a TLS server on each of them, and
// the name server of this machine's resolv.conf.
type world struct {
	*testing.T
	ns    *os.File
	names map[string][]string // what the name server answers; more than one: in turns

	mu    sync.Mutex
	asked map[string]int // addresses that were asked for, by name
	hits  map[string]int // requests, by the address and port that they came to
}

func newWorld(t *testing.T, names map[string][]string) *world {
	t.Helper()
	w := &world{T: t, names: names, asked: map[string]int{}, hits: map[string]int{}}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			w.ns, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		t.Fatalf("an own network: %v", err)
	}
	t.Cleanup(func() { _ = w.ns.Close() })
	w.ip("link", "set", "lo", "up")
	servers := nameServers(t)
	for _, a := range append([]string{public4, public6, private6, metadata}, servers...) {
		if netip.MustParseAddr(a).IsLoopback() {
			continue
		}
		bits := "/32"
		if strings.Contains(a, ":") {
			bits = "/128"
		}
		w.ip("address", "add", a+bits, "dev", "lo")
	}
	for port, secure := range map[string]bool{"80": false, "81": false, "443": true} {
		w.web(port, secure)
	}
	for _, a := range servers {
		w.nameServer(a)
	}
	return w
}

// in runs a function on a thread that is in this network; what it starts stays
// there.
func (w *world) in(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		err := unix.Setns(int(w.ns.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func (w *world) must(f func() error) {
	w.Helper()
	if err := w.in(f); err != nil {
		w.Fatal(err)
	}
}

func (w *world) ip(args ...string) {
	w.Helper()
	w.must(func() error {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %q: %w: %s", args, err, out)
		}
		return nil
	})
}

// web serves every address at a port.
func (w *world) web(port string, secure bool) {
	w.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		at := r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
		w.mu.Lock()
		w.hits[at]++
		w.mu.Unlock()
		_, _ = fmt.Fprintf(rw, "reached %s\n", at)
	}))
	_ = srv.Listener.Close()
	w.must(func() (err error) {
		srv.Listener, err = net.Listen("tcp", ":"+port)
		return err
	})
	if secure {
		srv.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		srv.StartTLS()
	} else {
		srv.Start()
	}
	w.Cleanup(srv.Close)
}

// taken returns the addresses that were reached since the last time.
func (w *world) taken() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	hits := w.hits
	w.hits = map[string]int{}
	return hits
}

func nameServers(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			if a, err := netip.ParseAddr(f[1]); err == nil && a.Zone() == "" {
				all = append(all, a.String())
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("resolv.conf names no name server, so a test cannot be one")
	}
	return all
}

func (w *world) nameServer(address string) {
	w.Helper()
	var conn net.PacketConn
	w.must(func() (err error) {
		conn, err = net.ListenPacket("udp", net.JoinHostPort(address, "53"))
		return err
	})
	w.Cleanup(func() { _ = conn.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			if answer := w.answer(b[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
}

// answer is a name server's (RFC 1035, 4): the addresses of the asked kind, with
// no time to live.
func (w *world) answer(q []byte) []byte {
	if len(q) < 12 {
		return nil
	}
	var labels []string
	at := 12
	for at < len(q) && q[at] != 0 && at+1+int(q[at]) < len(q) {
		labels = append(labels, string(q[at+1:at+1+int(q[at])]))
		at += 1 + int(q[at])
	}
	end := at + 5 // the name's end, type and class
	if end > len(q) {
		return nil
	}
	six := binary.BigEndian.Uint16(q[at+1:]) == 28 // AAAA
	out := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
	a, ok := w.address(strings.ToLower(strings.Join(labels, ".")), six)
	if !ok {
		return out
	}
	out[7] = 1
	out = append(out, 0xc0, 12, 0, q[at+2], 0, 1, 0, 0, 0, 0, 0, byte(len(a)))
	return append(out, a...)
}

func (w *world) address(name string, six bool) ([]byte, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.names[name]
	if len(all) == 0 {
		return nil, false
	}
	a := netip.MustParseAddr(all[w.asked[name]%len(all)])
	if a.Is4() == six {
		return nil, false
	}
	w.asked[name]++
	return a.AsSlice(), true
}
