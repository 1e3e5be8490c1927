package egress

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
)

// Resolver turns names into addresses by the host's own files, which the
// launcher hands over: the supervisor's image has none. Names are complete as
// they are: no search list is tried.
type Resolver struct {
	hosts map[string][]netip.Addr
	dns   *net.Resolver
}

// maxServers bounds how many name servers are asked in turn (resolv.conf(5), MAXNS).
const maxServers = 3

// NewResolver reads the contents of resolv.conf(5) and hosts(5).
func NewResolver(resolvConf, hostsFile []byte) *Resolver {
	r := &Resolver{hosts: readHosts(hostsFile)}
	servers := readServers(resolvConf)
	var next atomic.Uint32
	r.dns = &net.Resolver{
		PreferGo: true,
		// The address given here is from a file that is not there.
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			if len(servers) == 0 {
				return nil, fmt.Errorf("no name server")
			}
			var d net.Dialer
			i := int(next.Add(1)-1) % len(servers)
			return d.DialContext(ctx, network, servers[i])
		},
	}
	return r
}

// Lookup returns every address of a name.
func (r *Resolver) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if known, ok := r.hosts[name]; ok {
		return slices.Clone(known), nil
	}
	all, err := r.dns.LookupNetIP(ctx, "ip", name+".")
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", name, err)
	}
	for i, a := range all {
		// The library writes IPv4 addresses as IPv6 ones in some of its ways;
		// an answer of type AAAA that holds one is judged as what it is to the
		// kernel: the IPv4 address.
		all[i] = a.Unmap()
	}
	return all, nil
}

func readServers(conf []byte) []string {
	var servers []string
	for fields := range lines(conf) {
		if len(fields) < 2 || fields[0] != "nameserver" || len(servers) == maxServers {
			continue
		}
		if a, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, net.JoinHostPort(a.String(), "53"))
		}
	}
	return servers
}

func readHosts(file []byte) map[string][]netip.Addr {
	known := map[string][]netip.Addr{}
	for fields := range lines(file) {
		a, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, name := range fields[1:] {
			name = strings.ToLower(name)
			known[name] = append(known[name], a)
		}
	}
	return known
}

// lines yields the words of each line that has any, without its comment.
func lines(file []byte) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		sc := bufio.NewScanner(bytes.NewReader(file))
		for sc.Scan() {
			text, _, _ := strings.Cut(sc.Text(), "#")
			text, _, _ = strings.Cut(text, ";")
			if fields := strings.Fields(text); len(fields) > 0 && !yield(fields) {
				return
			}
		}
	}
}
