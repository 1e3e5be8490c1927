package main

import "testing"

// TestPasteableMeansTheSame (case U5): a hint that is pasted reaches the home and
// the daemon that it is about.
func TestPasteableMeansTheSame(t *testing.T) {
	for _, c := range []struct{ home, daemon, want string }{
		{"", "", "proctor diff S"},
		{"/h o", "", "proctor --home '/h o' diff S"},
		{"", "unix:///d", "proctor --docker-host unix:///d diff S"},
		{"/h", "unix:///d $x", "proctor --home /h --docker-host 'unix:///d $x' diff S"},
	} {
		a := &app{homeDir: c.home, dockerHost: c.daemon}
		if got := a.pasteable("proctor diff S"); got != c.want {
			t.Errorf("home %q, daemon %q: %s, want %s", c.home, c.daemon, got, c.want)
		}
	}
	if got := (&app{homeDir: "/h"}).pasteable("run it without -t"); got != "run it without -t" {
		t.Errorf("words that are no command became %q", got)
	}
}
