package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// tail keeps the last bytes of what is written, and counts all of them.
type tail struct {
	mu    sync.Mutex
	most  int
	kept  []byte
	total int64
}

func newTail(most int) *tail { return &tail{most: most} }

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(p))
	if len(p) >= t.most {
		t.kept = append(t.kept[:0], p[len(p)-t.most:]...)
		return len(p), nil
	}
	if over := len(t.kept) + len(p) - t.most; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	t.kept = append(t.kept, p...)
	return len(p), nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.kept)
}

func (t *tail) count() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// stepError reads the last line that a step wrote on standard error.
func stepError(step string, exit sandbox.Exit, stderr *tail) *StepError {
	e := &StepError{Step: step, Exit: exit}
	lines := bytes.Split(bytes.TrimRight(stderr.bytes(), "\n"), []byte("\n"))
	last := lines[len(lines)-1]
	var r wire.Refusal
	if err := strictjson.Unmarshal(last, &r, strictjson.Limits{}); err == nil {
		e.Text, e.Hint = r.Error, r.Hint
	} else {
		e.Text = string(last)
	}
	return e
}

// stepAnswer takes a step's answer: one line of JSON, then bytes that are only
// carried on. Without a destination for them, any such byte is an error.
type stepAnswer struct {
	line []byte
	full bool
	rest io.Writer
}

func (r *stepAnswer) Write(p []byte) (int, error) {
	n := len(p)
	if !r.full {
		at := bytes.IndexByte(p, '\n')
		part := p
		if at >= 0 {
			part = p[:at]
		}
		if len(r.line)+len(part) > wire.MaxAnswer {
			return 0, fmt.Errorf("answer is longer than %d bytes", wire.MaxAnswer)
		}
		r.line = append(r.line, part...)
		if at < 0 {
			return n, nil
		}
		r.full, p = true, p[at+1:]
	}
	if len(p) == 0 {
		return n, nil
	}
	if r.rest == nil {
		return 0, errors.New("answer goes on after its line")
	}
	if _, err := r.rest.Write(p); err != nil {
		return 0, err
	}
	return n, nil
}

func (r *stepAnswer) read(v any) error {
	if !r.full {
		return errors.New("no whole answer")
	}
	return strictjson.Unmarshal(r.line, v, strictjson.Limits{Size: wire.MaxAnswer})
}

func line(v any) ([]byte, error) {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b) > wire.MaxLine {
		return nil, fmt.Errorf("message is longer than %d bytes", wire.MaxLine)
	}
	return append(b, '\n'), nil
}

// bytesToValid makes text of what a process printed: invalid UTF-8 becomes
// visible escapes of its bytes.
func bytesToValid(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	var out []byte
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			out = fmt.Appendf(out, `\x%02x`, b[0])
		} else {
			out = append(out, b[:n]...)
		}
		b = b[n:]
	}
	return out
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return lines[len(lines)-1]
}
