package launch_test

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// curl is one call of the real curl.
type curl struct {
	args    string // as a shell reads them
	reaches string // the address and port that it leads to
	needs   permit // what lets it through
}

type permit int

const (
	nothing permit = iota // it is listed at first
	listing               // its place has to be listed, too
	never                 // no list has a place for it
	cut                   // the tunnel is there, and what is sent through it ends it
)

// both is a host asked for in plain HTTP and by CONNECT.
func both(name, address string, needs permit) []curl {
	return []curl{{"http://" + name + "/", address + ":80", needs}, {"-k https://" + name + "/", address + ":443", needs}}
}

func curls() []curl {
	all := slices.Concat(
		both("listed.test", public4, nothing), both("six.test", "["+public6+"]", nothing),
		both("other.test", public4, listing), both(public4, public4, listing), both(metadata, metadata, listing),
		both("127.0.0.1", "127.0.0.1", listing), both("[::1]", "[::1]", listing), both("["+private6+"]", "["+private6+"]", listing),
		// Listed names that lead inside.
		both("inside4.test", "127.0.0.1", listing), both("inside6.test", "[::1]", listing), both("mapped.test", "127.0.0.1", listing),
		both("private6.test", "["+private6+"]", listing), both("metadata.test", metadata, listing),
		// curl itself writes the first three of these as 127.0.0.1.
		both("2130706433", "127.0.0.1", listing), both("0177.0.0.1", "127.0.0.1", listing), both("0x7f.1", "127.0.0.1", listing),
		both("[::ffff:127.0.0.1]", "127.0.0.1", never), both("[::ffff:"+metadata+"]", metadata, never), both("listed.test.", public4, never),
		[]curl{
			{"http://listed.test:81/", public4 + ":81", listing},
			{"-p http://listed.test:81/", public4 + ":81", cut}, // a tunnel without TLS
			{"-k https://other.test/ --connect-to ::listed.test:443", public4 + ":443", cut},
			{"http://l\u0456sted.test/", public4 + ":80", never},
		},
	)
	for _, odd := range []string{"2130706433", "0177.0.0.1", "0x7f.1", "127.1", "127.0.0.1.", "%31%32%37.0.0.1", "[::ffff:7f00:1]", "[::1%25lo]", "listed.test@127.0.0.1"} {
		all = append(all, curl{"http://listed.test/ --request-target http://" + odd + "/", "127.0.0.1:80", never})
	}
	for _, odd := range []string{"2130706433", "0177.0.0.1", "0x7f.1", "127.1"} {
		all = append(all, curl{"-k https://listed.test/ --connect-to ::" + odd + ":443", "127.0.0.1:443", never})
	}
	return all
}

// atFirst is what the operator lists; the names that lead inside are among it.
func atFirst() []string {
	return listed("listed.test", "six.test", "inside4.test", "inside6.test", "mapped.test", "private6.test", "metadata.test", "rebind.test")
}

// later are the places themselves.
func later() []string {
	return append(listed("other.test", public4, metadata, "127.0.0.1", "[::1]", "["+private6+"]"), "listed.test:81")
}

func listed(hosts ...string) []string {
	var all []string
	for _, h := range hosts {
		all = append(all, h+":80", h+":443")
	}
	return all
}

// TestD4RealCurl (case D4): the real curl in a session reaches what is listed,
// plain and by CONNECT, by IPv4 and by IPv6, and nothing else by whatever name,
// spelling, port or answer of the name server; without the door it reaches
// nothing. Every place that it is refused answers, and is reached once it is
// listed.
func TestD4RealCurl(t *testing.T) {
	names := map[string][]string{
		"listed.test": {public4}, "six.test": {public6}, "other.test": {public4}, "inside4.test": {"127.0.0.1"}, "inside6.test": {"::1"},
		"private6.test": {private6}, "metadata.test": {metadata}, "mapped.test": {"::ffff:127.0.0.1"},
		"rebind.test": {public4, metadata, metadata},
	}
	for _, engine := range []string{"local", "docker"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, maps.Clone(names))
			d, policy := w.desk(engine)
			w.withoutDoor()
			d.withDoor(w, policy, atFirst(), nothing)
			d.withDoor(w, policy, append(atFirst(), later()...), listing)
		})
	}
}

// desk is a desk whose sessions' supervisors are in this network.
func (w *world) desk(engine string) (*desk, string) {
	w.Helper()
	if engine == "docker" {
		d, _ := newDockerDeskIn(w.T, w.in)
		return d, npmPolicy(w.T, dockerPolicy, "http://registry.test/")
	}
	d := newDeskOn(w.T, "local")
	d.network = w.in
	return d, npmPolicy(w.T, goodPolicy, "http://registry.test/")
}

// withoutDoor is the control: where each address leads in the same network.
func (w *world) withoutDoor() {
	w.Helper()
	for _, c := range curls() {
		if strings.Contains(c.args, ".test") {
			continue // only the door asks this network's name server
		}
		w.must(func() error {
			out, err := exec.Command("curl", append([]string{"-gsS", "--noproxy", "*"}, strings.Fields(c.args)...)...).CombinedOutput()
			if string(out) != "reached "+c.reaches+"\n" {
				w.Errorf("curl %s without the door: %s, %v, want %s", c.args, out, err, c.reaches)
			}
			return nil
		})
	}
	w.taken()
}

// withDoor makes every call in a session with these hosts listed.
func (d *desk) withDoor(w *world, policy string, hosts []string, most permit) {
	d.Helper()
	d.policy(policy + fmt.Sprintf("egress: {door: open, allow: [\"%s\"]}\n", strings.Join(hosts, `", "`)))
	const call = "echo '<%[1]s '; curl -gs -m 20 -w '%%{exitcode} %%{http_code} %%{http_connect} %[1]s>\n' %[2]s\n"
	var script strings.Builder
	for i, c := range curls() {
		fmt.Fprintf(&script, call, fmt.Sprint(i), "--noproxy '' "+c.args)
	}
	for i := range 6 {
		fmt.Fprintf(&script, call, fmt.Sprint("plain", i), "http://rebind.test/")
		fmt.Fprintf(&script, call, fmt.Sprint("secure", i), "-k https://rebind.test/")
	}
	for _, direct := range []string{"http://listed.test", "http://" + public4, "http://127.0.0.1", "http://[::1]", "http://[" + public6 + "]", "http://" + metadata} {
		fmt.Fprintf(&script, call, "direct", "--noproxy '*' "+direct)
	}
	r := d.start("sh", "-c", script.String())
	r.ends(0)
	answers := map[string][]string{} // the body, exit status, status, status of CONNECT
	for _, m := range regexp.MustCompile(`(?s)<(\w+) \n(.*?)(\d+) (\d{3}) (\d{3}) (\w+)>`).FindAllStringSubmatch(r.out.String(), -1) {
		if m[1] != m[6] || m[1] == "direct" && (m[3] != "6" && m[3] != "7" || m[4] != "000") {
			d.Errorf("%q", m[0])
		}
		answers[m[1]] = m[2:6]
	}
	for i, c := range curls() {
		a := answers[fmt.Sprint(i)]
		if a == nil {
			d.Fatalf("curl %s: no answer:\n%s", c.args, r.out)
		}
		through := strings.Contains(a[0], "reached "+c.reaches+"\n")
		refused := !strings.Contains(a[0], "reached") && (a[2] == "403" || a[3] == "403" || strings.Contains(c.args, "request-target") && a[2] == "400")
		switch {
		case c.needs <= most && !through, c.needs > most && c.needs != cut && !refused:
			d.Errorf("curl %s: %q", c.args, a)
		case c.needs == cut && (a[1] == "0" || strings.Contains(a[0], "reached")):
			d.Errorf("curl %s: %q", c.args, a)
		}
	}
	hits := w.taken()
	if most == listing {
		return
	}
	// Whatever the name server answered, only what was judged was reached.
	for _, want := range []string{public4 + ":80", public4 + ":443", "[" + public6 + "]:80", "[" + public6 + "]:443"} {
		if hits[want] == 0 {
			d.Errorf("%s was not reached", want)
		}
		delete(hits, want)
	}
	if len(hits) > 0 {
		d.Errorf("reached: %v", hits)
	}
	for _, kind := range []string{"plain", "secure"} {
		outcomes := map[bool]int{}
		for i := range 6 {
			outcomes[strings.Contains(fmt.Sprint(answers[fmt.Sprint(kind, i)]), "reached "+public4)]++
		}
		if outcomes[true] != 2 || outcomes[false] != 4 {
			d.Errorf("%s: of the answers that change, %v were right", kind, outcomes)
		}
	}
}
