package hosts

import "net/netip"

// reserved are the IPv4 blocks that are not public, with what they are for
// (IANA IPv4 Special-Purpose Address Registry).
func reserved4() []block {
	return []block{
		{"0.0.0.0/8", "this network"},
		{"10.0.0.0/8", "private"},
		{"100.64.0.0/10", "shared by a carrier"},
		{"127.0.0.0/8", "loopback"},
		{"169.254.0.0/16", "link-local, where clouds keep their metadata"},
		{"172.16.0.0/12", "private"},
		{"192.0.0.0/24", "reserved by IETF"},
		{"192.0.2.0/24", "for documentation"},
		{"192.88.99.0/24", "a retired relay"},
		{"192.168.0.0/16", "private"},
		{"198.18.0.0/15", "for benchmarks"},
		{"198.51.100.0/24", "for documentation"},
		{"203.0.113.0/24", "for documentation"},
		{"224.0.0.0/4", "multicast"},
		{"240.0.0.0/4", "reserved, or broadcast"},
	}
}

// reserved6 are the IPv6 blocks that are named in a reason; outside of
// 2000::/3 nothing is public (IANA IPv6 Special-Purpose Address Registry). Some
// of them carry an IPv4 address, which nobody checked.
func reserved6() []block {
	return []block{
		{"::/128", "unspecified"},
		{"::1/128", "loopback"},
		{"::ffff:0:0/96", "an IPv4 address written as IPv6"},
		{"64:ff9b::/96", "a translated IPv4 address (NAT64)"},
		{"64:ff9b:1::/48", "a translated IPv4 address (NAT64)"},
		{"2001::/23", "reserved by IETF, or a tunnel (Teredo)"},
		{"2001:db8::/32", "for documentation"},
		{"2002::/16", "a tunnel (6to4)"},
		{"3fff::/20", "for documentation"},
		{"fc00::/7", "private"},
		{"fe80::/10", "link-local"},
		{"ff00::/8", "multicast"},
	}
}

type block struct{ prefix, what string }

// Reserved says what an address is for, if it is not a public one. "" means
// public.
func Reserved(a netip.Addr) string {
	blocks := reserved6()
	switch {
	case !a.IsValid():
		return "no address"
	case a.Zone() != "":
		return "link-local"
	case a.Is4():
		blocks = reserved4()
	}
	for _, b := range blocks {
		if netip.MustParsePrefix(b.prefix).Contains(a) {
			return b.what
		}
	}
	if a.Is6() && !netip.MustParsePrefix("2000::/3").Contains(a) {
		return "not public"
	}
	return ""
}
