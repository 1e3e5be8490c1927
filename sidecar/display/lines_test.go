package display

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
)

func relay(chunks ...string) string {
	var out bytes.Buffer
	l := NewLines(&out, AgentPrefix)
	for _, c := range chunks {
		if n, err := io.WriteString(l, c); n != len(c) || err != nil {
			panic("Write refused")
		}
	}
	l.Flush()
	return out.String()
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		name   string
		chunks []string
		want   string
	}{
		{"nothing", nil, ""},
		{"line", []string{"a\n"}, "agent| a\n"},
		{"last line without newline", []string{"a\nb"}, "agent| a\nagent| b\n"},
		{"empty lines", []string{"\n\n"}, "agent| \nagent| \n"},
		{"joined", []string{"a", "b\nc", "\n"}, "agent| ab\nagent| c\n"},
		{"crlf", []string{"a\r", "\nb\r\n"}, "agent| a\nagent| b\n"},
		{"carriage return", []string{"PASS\rx\n"}, "agent| PASS\\rx\n"},
		{"github", []string{"::error::x\n"}, "agent| \\x3a:error::x\n"},
		{"github, old", []string{"a ##[error]x\n"}, "agent| a \\x23#[error]x\n"},
		{"cut in two writes", []string{"#", "#[error]x\n"}, "agent| \\x23#[error]x\n"},
		{"rune in two writes", []string{"\xc3", "\xa9\n"}, "agent| é\n"},
		{"terminal", []string{"\x1b[2J\n"}, "agent| \\x1b[2J\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := relay(c.chunks...); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLinesAreBoundedAndLoseNothing(t *testing.T) {
	for _, tail := range []string{"", "\r\n", "\n", "\r", "\rx", "é", "::x"} {
		for pad := MaxLine - 3; pad <= MaxLine+3; pad++ {
			in := strings.Repeat("x", pad) + tail
			for _, step := range []int{1, 7, len(in)} {
				var chunks []string
				for rest := in; rest != ""; {
					n := min(step, len(rest))
					chunks, rest = append(chunks, rest[:n]), rest[n:]
				}
				var got strings.Builder
				for line := range strings.Lines(relay(chunks...)) {
					line = strings.TrimSuffix(line, "\n")
					text, ok := strings.CutPrefix(line, AgentPrefix)
					if !ok || len(text) > 4*MaxLine {
						t.Fatalf("line %q", line)
					}
					if strings.HasPrefix(text, "::") {
						t.Fatalf("command in %q", line)
					}
					got.WriteString(unescape(text))
				}
				want := strings.TrimSuffix(in, "\n")
				if want != in {
					want = strings.TrimSuffix(want, "\r")
				}
				if got.String() != want {
					t.Fatalf("pad %d tail %q step %d: lost bytes", pad, tail, step)
				}
			}
		}
	}
}

type brokenWriter struct{ after int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.after--; w.after < 0 {
		return 0, errors.New("broken pipe")
	}
	return len(p), nil
}

func TestLinesOutliveTheirReader(t *testing.T) {
	l := NewLines(&brokenWriter{after: 1}, "")
	for range 3 {
		if n, err := io.WriteString(l, "x\n"); n != 2 || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if l.Err() == nil {
		t.Fatal("Err is nil after a broken pipe")
	}
}

func TestLinesOneWritePerLine(t *testing.T) {
	var mu sync.Mutex
	var writes []string
	l := NewLines(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		writes = append(writes, string(p))
		return len(p), nil
	}), "p ")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				_, _ = io.WriteString(l, "one\ntwo\n")
			}
		})
	}
	wg.Wait()
	for _, w := range writes {
		if w != "p one\n" && w != "p two\n" {
			t.Fatalf("write %q", w)
		}
	}
	if len(writes) != 400 {
		t.Fatalf("%d writes", len(writes))
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
