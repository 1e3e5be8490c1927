package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/proctor-project/proctor/sidecar/hosts"
)

// Lookup finds the addresses of a name.
type Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

// Dialer connects to a target by an address that was checked.
type Dialer struct {
	Lookup Lookup
	// Timeout bounds resolving and connecting, each address included; 0 is 15 s.
	Timeout time.Duration
}

const dialTimeout = 15 * time.Second

// RefusedError says that a target's addresses are not allowed.
type RefusedError struct{ Decision Decision }

func (e *RefusedError) Error() string { return e.Decision.Reason }

// Anywhere allows every address: for a host that the operator named for the
// supervisor's own use.
func Anywhere(netip.Addr) Decision { return Decision{Allowed: true} }

// Dial resolves the target once, judges every address, and connects to the
// first that is allowed and answers: what was checked is what is dialled,
// whatever the name leads to a moment later.
func (d Dialer) Dial(ctx context.Context, t hosts.Target, judge func(netip.Addr) Decision) (net.Conn, error) {
	limit := d.Timeout
	if limit == 0 {
		limit = dialTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	all, err := d.addresses(ctx, t)
	if err != nil {
		return nil, err
	}
	var refused *RefusedError
	var errs []error
	for _, a := range all {
		if verdict := judge(a); !verdict.Allowed {
			refused = &RefusedError{verdict}
			continue
		}
		c, err := dialOne(ctx, a, t.Port())
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	switch {
	case len(errs) > 0:
		return nil, errors.Join(errs...)
	case refused != nil:
		return nil, refused
	}
	return nil, errors.New("resolve " + t.Host() + ": no address")
}

// maxAddresses bounds how many addresses of one name are tried.
const maxAddresses = 8

func (d Dialer) addresses(ctx context.Context, t hosts.Target) ([]netip.Addr, error) {
	if a, ok := t.Addr(); ok {
		return []netip.Addr{a}, nil
	}
	all, err := d.Lookup(ctx, t.Host())
	return all[:min(len(all), maxAddresses)], err
}

// dialOne names the network by the address's kind, so that no other is tried.
func dialOne(ctx context.Context, a netip.Addr, port int) (net.Conn, error) {
	network := "tcp6"
	if a.Is4() {
		network = "tcp4"
	}
	one := net.Dialer{Timeout: 5 * time.Second}
	return one.DialContext(ctx, network, net.JoinHostPort(a.String(), strconv.Itoa(port)))
}
