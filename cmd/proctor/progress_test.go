package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgressOnATerminal: finished phases stay, one line is live and never
// wraps, and what is said in between comes above it.
func TestProgressOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := newProgress(&out, progressAuto, true, false)
		p.Begin("stage", "/a/"+strings.Repeat("long/", 40)+"\x1b[2J")
		p.Note("said\nin between")
		<-time.After(3 * time.Second)
		p.tick()
		p.End("stage", "5 entries")
		text := out.String()
		for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\x1b[K", "\n"), "\n") {
			if len([]rune(line)) > 79 || strings.Contains(line, "\x1b") {
				t.Errorf("line %q", line)
			}
		}
		if !strings.Contains(text, "\r\x1b[Kproctor: said\\nin between\n  stage ") {
			t.Errorf("the note is not above the live line: %q", text)
		}
		if !strings.HasSuffix(text, "\r\x1b[K  stage       3.0 s  5 entries\n") {
			t.Errorf("the finished phase does not stay: %q", text)
		}
	})
}

// TestProgressElsewhere: each event is a line, and a long phase says now and
// then that it goes on.
func TestProgressElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := newProgress(&out, progressAuto, false, false)
		p.Begin("serve", "")
		p.Live("agent running")
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { defer close(done); p.run(stop) }()
		<-time.After(70 * time.Second)
		close(stop)
		<-done
		p.End("serve", "")
		if n := strings.Count(out.String(), "still running: agent running\n"); n != 2 || strings.Contains(out.String(), "\x1b") {
			t.Errorf("said %d times that it goes on: %q", n, out.String())
		}
	})
}
