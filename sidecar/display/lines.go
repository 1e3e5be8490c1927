package display

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"
)

// AgentPrefix starts every line that comes from an agent's container.
const AgentPrefix = "agent| "

// MaxLine is how many bytes of a relayed line are shown on one line; a longer
// one goes on in the next, behind the same prefix.
const MaxLine = 4096

// Lines relays hostile output: each line goes to the writer below in one Write,
// behind the prefix, escaped. It is safe for concurrent use; two Lines over one
// writer do not mix within a line if that writer's Write is atomic.
type Lines struct {
	mu     sync.Mutex
	w      io.Writer
	prefix string
	buf    []byte // the unfinished line, at most MaxLine bytes and one CR
	err    error
}

// NewLines returns a Lines that writes to w. The prefix is trusted text.
func NewLines(w io.Writer, prefix string) *Lines {
	return &Lines{w: w, prefix: prefix}
}

// Write takes all of p and never fails: a reader of ours that went away must
// not stop the container that writes. After the first error below, which Err
// returns, what is written is dropped.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			l.add(rest)
			break
		}
		l.add(rest[:i])
		l.emit(bytes.TrimSuffix(l.buf, []byte("\r")))
		l.buf = l.buf[:0]
		rest = rest[i+1:]
	}
	return len(p), nil
}

// Flush writes a last line that has no newline at its end.
func (l *Lines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buf) > 0 {
		l.emit(l.buf)
		l.buf = l.buf[:0]
	}
}

// Err returns the first error of the writer below.
func (l *Lines) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// add appends p to the unfinished line and emits what is over the limit.
func (l *Lines) add(p []byte) {
	for len(p) > 0 {
		// One more than the limit, so that a CR before the newline that
		// may come next is not shown on a line of its own.
		room := MaxLine + 1 - len(l.buf)
		n := min(room, len(p))
		l.buf = append(l.buf, p[:n]...)
		p = p[n:]
		if len(l.buf) > MaxLine && (l.buf[MaxLine] != '\r' || len(p) > 0) {
			cut := wholeRunes(l.buf[:MaxLine])
			l.emit(l.buf[:cut])
			l.buf = append(l.buf[:0], l.buf[cut:]...)
		}
	}
}

// wholeRunes returns the length of b without a character that is cut in two at
// its end. Bytes that are no UTF-8 at all are kept.
func wholeRunes(b []byte) int {
	for back := 1; back < utf8.UTFMax && back < len(b); back++ {
		i := len(b) - back
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

func (l *Lines) emit(line []byte) {
	if l.err != nil {
		return
	}
	_, l.err = io.WriteString(l.w, l.prefix+Escape(string(line))+"\n")
}
