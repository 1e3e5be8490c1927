package hosts_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/hosts"
)

func TestParse(t *testing.T) {
	for s, want := range map[string]string{
		"api.example.com:443":     "api.example.com:443",
		"API.Example.COM:8443":    "api.example.com:8443",
		"xn--bcher-kva.example:1": "xn--bcher-kva.example:1",
		"localhost:80":            "localhost:80",
		"192.0.2.1:80":            "192.0.2.1:80",
		"[2001:DB8::1]:443":       "[2001:db8::1]:443",
		"1.example:65535":         "1.example:65535",
		"a-b.c0:22":               "a-b.c0:22",
	} {
		got, err := hosts.Parse(s)
		if err != nil || got.String() != want {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
}

// TestD4Spellings (case D4): what another reader would take for another host.
func TestD4Spellings(t *testing.T) {
	for _, s := range []string{
		"", ":", ":443", "host", "host:", "host:0", "host:00443", "host:+443", "host:65536", "host:-1", "host: 443", "host:443x",
		"host.:443", "host..example:443", ".host:443", "127.0.0.1.:80",
		"2130706433:80", "0x7f000001:80", "0x7f.1:80", "0177.0.0.1:80", "127.1:80", "127.0.1:80", "127.0.0.01:80", "127.0.0.1.2:80",
		"0x:80", "1.2.3.256:80", "169.254.169.254.:80", "foo.0x7f:80", "foo.1:80",
		"::1:80", "[::1:80", "[::1]80", "[fe80::1%eth0]:80", "[::ffff:127.0.0.1]:80", "[::ffff:7f00:1]:80", "[127.0.0.1]:80", "[host]:80",
		"аpple.com:443", "app\u200dle.com:443", "host\uff0ecom:443", "ho\u0130st:443", "ho%73t:443", "us@host:443", "host/:443", "ho st:443", "ho\nst:443", "ho\x00st:443",
		"-host:443", "host-:443", "a_b.example:443", "*.example.com:443", "*:443", strings.Repeat("a", 64) + ".example:443", strings.Repeat("a.", 127) + "b:443",
	} {
		if got, err := hosts.Parse(s); err == nil {
			t.Errorf("%q is taken as %q", s, got)
		}
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, target string
		want            bool
	}{
		{"example.com:443", "example.com:443", true},
		{"example.com:443", "EXAMPLE.com:443", true},
		{"example.com:443", "example.com:80", false},
		{"example.com:443", "a.example.com:443", false},
		{"*.example.com:443", "a.example.com:443", true},
		{"*.example.com:443", "a.b.example.com:443", true},
		{"*.example.com:443", "example.com:443", false},
		{"*.example.com:443", "badexample.com:443", false},
		{"*.example.com:443", "a.example.com:8443", false},
		{"*.example.com:443", "a.example.com.evil.example:443", false},
		{"xn--pple-43d.com:443", "apple.com:443", false},
		{"10.0.0.5:8080", "10.0.0.5:8080", true},
		{"10.0.0.5:8080", "10.0.0.6:8080", false},
		{"[2001:db8::1]:1", "[2001:db8:0::1]:1", true},
	} {
		p, err := hosts.ParsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		target, err := hosts.Parse(c.target)
		if err != nil {
			t.Fatal(err)
		}
		if p.Matches(target) != c.want {
			t.Errorf("%s lists %s: %v", c.pattern, c.target, !c.want)
		}
	}
	for _, bad := range []string{"*.com:443", "*:443", "*.10.0.0.5:1", "*.*.example.com:443", "a*.example.com:443", "*.example.com", "*.:443", "**.example.com:1"} {
		if _, err := hosts.ParsePattern(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestD4Reserved (case D4): every address that leads back inside, and neighbours
// that do not.
func TestD4Reserved(t *testing.T) {
	for _, s := range []string{
		"0.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.192", "192.168.1.1", "198.18.0.1", "224.0.0.1", "239.255.255.250", "255.255.255.255",
		"::", "::1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "64:ff9b::808:808", "64:ff9b:1::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
		"2001::1", "2002:7f00:1::", "2001:db8::1", "::7f00:1", "100::1", "5f00::1",
	} {
		if hosts.Reserved(netip.MustParseAddr(s)) == "" {
			t.Errorf("%s is public", s)
		}
	}
	for _, s := range []string{"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2620::1"} {
		if why := hosts.Reserved(netip.MustParseAddr(s)); why != "" {
			t.Errorf("%s is %s", s, why)
		}
	}
	if hosts.Reserved(netip.Addr{}) == "" {
		t.Error("no address is public")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a.example:443", "[::1]:1", "127.1:80", "*.x.y:1", "0x7f:1", "ä:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := hosts.ParsePattern(s); err == nil {
			again, err := hosts.ParsePattern(p.String())
			if err != nil || again != p {
				t.Errorf("%q becomes %q, which becomes %q, %v", s, p, again, err)
			}
		}
		target, err := hosts.Parse(s)
		if err != nil {
			return
		}
		again, err := hosts.Parse(target.String())
		if err != nil || again != target {
			t.Errorf("%q becomes %q, which becomes %q, %v", s, target, again, err)
		}
	})
}
