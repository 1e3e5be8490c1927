package packages

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// wire counts the tries to find a host by name. Every registry is one, and the
// servers of tests are addresses, so no test reaches a registry unnoticed.
type wire struct {
	tripped atomic.Int64
	lifted  atomic.Bool
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if w.lifted.Load() {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	w.tripped.Add(1)
	return nil, errors.New("trip-wire: a test reached for the network")
}

func TestMain(m *testing.M) {
	w := &wire{}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: w.dial}
	tripWire = w
	code := m.Run()
	if n := w.tripped.Load(); n != w.expected() && code == 0 {
		fmt.Fprintf(os.Stderr, "FAIL: %d look-ups reached for the network\n", n)
		code = 1
	}
	os.Exit(code)
}

var tripWire *wire

// expected is what TestP11TripWire causes on purpose.
func (w *wire) expected() int64 { return expectedTrips.Load() }

var expectedTrips atomic.Int64

// withNetwork lifts the wire for a test that is named for it.
func withNetwork(t *testing.T) {
	t.Helper()
	if !strings.HasPrefix(t.Name(), "TestRealRegistry") {
		t.Fatal("only tests named for the real registry may use the network")
	}
	tripWire.lifted.Store(true)
	t.Cleanup(func() { tripWire.lifted.Store(false) })
}

func TestP11TripWire(t *testing.T) {
	before := tripWire.tripped.Load()
	c, err := NewClient(Config{Registry: "https://registry.example"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resolve(t.Context(), "left-pad@1.3.0"); ReasonOf(err) != Unreachable {
		t.Fatalf("error %v, want unreachable", err)
	}
	n := tripWire.tripped.Load() - before
	if n == 0 {
		t.Fatal("a look-up did not touch the trip-wire")
	}
	expectedTrips.Add(n)
}
