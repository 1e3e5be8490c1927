package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maxName is the longest name of a host, in bytes (RFC 1035, 2.3.4).
const maxName = 253

// Target is one host and port. Only Parse makes one.
type Target struct {
	host string
	addr netip.Addr // valid for an address
	port uint16
}

// Parse reads NAME:PORT, IPv4:PORT or [IPv6]:PORT. Letters become lower case;
// nothing else is rewritten.
func Parse(s string) (Target, error) {
	host, port, err := split(s)
	if err != nil {
		return Target{}, err
	}
	return New(host, port)
}

// New is Parse for a host (an IPv6 address without brackets) and a port.
func New(host string, port int) (Target, error) {
	if port < 1 || port > 65535 {
		return Target{}, fmt.Errorf("port %d is not between 1 and 65535", port)
	}
	t := Target{port: uint16(port)}
	if strings.Contains(host, ":") {
		a, err := netip.ParseAddr(host)
		switch {
		case err != nil || a.Zone() != "":
			return Target{}, errors.New("is not an IPv6 address")
		case a.Is4In6():
			return Target{}, errors.New("is an IPv4 address written as IPv6")
		}
		t.addr, t.host = a, a.String()
		return t, nil
	}
	if numeric(host) {
		a, err := netip.ParseAddr(host)
		if err != nil {
			return Target{}, errors.New("is an odd spelling of an IPv4 address; four decimal numbers are needed")
		}
		t.addr, t.host = a, a.String()
		return t, nil
	}
	name := lower(host)
	if err := checkName(name); err != nil {
		return Target{}, err
	}
	t.host = name
	return t, nil
}

// Host is the name, or the address without brackets.
func (t Target) Host() string { return t.host }

// Port is the port's number.
func (t Target) Port() int { return int(t.port) }

// Addr is the address, where the host is one.
func (t Target) Addr() (netip.Addr, bool) { return t.addr, t.addr.IsValid() }

// String is what Parse reads.
func (t Target) String() string {
	if t.addr.Is6() {
		return "[" + t.host + "]:" + strconv.Itoa(int(t.port))
	}
	return t.host + ":" + strconv.Itoa(int(t.port))
}

// split takes the port off. A port is plain digits: strconv alone would read "+1".
func split(s string) (string, int, error) {
	at := strings.LastIndexByte(s, ':')
	if at < 0 {
		return "", 0, errors.New("names no port; write HOST:PORT")
	}
	host, digits := s[:at], s[at+1:]
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || digits[0] == '+' || digits[0] == '0' {
		return "", 0, errors.New("names no port between 1 and 65535; write HOST:PORT")
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(host, ":") {
			return "", 0, errors.New("is not an IPv6 address in brackets")
		}
		return host, int(n), nil
	}
	if strings.Contains(host, ":") {
		return "", 0, errors.New("is an IPv6 address without brackets")
	}
	return host, int(n), nil
}

// lower knows ASCII only: another letter has no lower case here, and is refused.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// numeric reports whether some resolver would read the host as an IPv4 address:
// its last part is a number, in any base (inet_aton(3); WHATWG URL, "ends in a
// number").
func numeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := lower(host[strings.LastIndexByte(host, '.')+1:])
	if hexa, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hexa, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// checkName judges a name in lower case.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("names no host")
	case len(name) > maxName:
		return fmt.Errorf("is longer than %d bytes", maxName)
	case strings.HasSuffix(name, "."):
		return errors.New("ends with a dot")
	}
	for label := range strings.SplitSeq(name, ".") {
		if err := checkLabel(label); err != nil {
			return err
		}
	}
	return nil
}

func checkLabel(label string) error {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return errors.New("is not a host's name")
	}
	for i := range len(label) {
		switch c := label[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
		case c >= 0x80:
			return errors.New("is not plain ASCII; an international name is written as xn--")
		default:
			return errors.New("is not a host's name")
		}
	}
	return nil
}
