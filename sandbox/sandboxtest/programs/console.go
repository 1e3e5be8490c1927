package programs

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Console keeps what was written and can be waited on, by one at a time.
type Console struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	wrote chan struct{}
}

// NewConsole is empty.
func NewConsole() *Console { return &Console{wrote: make(chan struct{}, 1)} }

// Write never fails.
func (c *Console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.wrote <- struct{}{}:
	default:
	}
	return c.buf.Write(b)
}

// String is all that was written so far.
func (c *Console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

// Await blocks until the text was written, and says whether it was before ended
// was closed; nil never is. It fails the test after the limit.
func (c *Console) Await(t testing.TB, limit time.Duration, ended <-chan struct{}, text string) bool {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for !strings.Contains(c.String(), text) {
		select {
		case <-c.wrote:
		case <-ended:
			return strings.Contains(c.String(), text)
		case <-timer.C:
			t.Fatalf("never wrote %q, but:\n%s", text, c)
		}
	}
	return true
}
