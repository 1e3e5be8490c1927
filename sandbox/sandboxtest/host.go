package sandboxtest

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// tokens is in the arguments of every process of this run that is looked for.
func (s *suite) tokens() string { return "sandboxtest-" + s.session + "-" }

func (s *suite) newToken() string { return s.tokens() + rand.Text() }

// processesWith finds the host's processes that have the text in an argument.
func processesWith(t testing.TB, token string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || !bytes.Contains(line, []byte(token)) {
			continue
		}
		// A runtime's client that carries the container's arguments is no
		// process of the container: those run the payload.
		if exe := firstArgument(line); exe == payloadPath || exe == sidecarPath || exe == "/proc/self/exe" {
			pids = append(pids, pid)
		}
	}
	return pids
}

func firstArgument(line []byte) string {
	first, _, _ := bytes.Cut(line, []byte{0})
	return string(first)
}

// processStatus is the kernel's word on a process, seen from the host.
func processStatus(t testing.TB, pid int) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.Join(strings.Fields(value), " ")
	}
	return status
}

func namespace(t testing.TB, pid, name string) string {
	t.Helper()
	link, err := os.Readlink(filepath.Join("/proc", pid, "ns", name))
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// hostMounts is every mount of the test's own view, as its line without the
// numbers that change.
func hostMounts(t testing.TB) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	mounts := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) > 5 {
			mounts[strings.Join(fields[3:], " ")] = true
		}
	}
	return mounts
}

// await returns when the condition holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(awaitDeadline)
	defer deadline.Stop()
	tick := time.NewTicker(awaitTick)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %v", what, awaitDeadline)
		case <-tick.C:
		}
	}
}

// lineWatcher waits for a line among a container's output.
type lineWatcher struct {
	line string

	mu   sync.Mutex
	text bytes.Buffer
}

func newLineWatcher(line string) *lineWatcher { return &lineWatcher{line: line} }

func (w *lineWatcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *lineWatcher) seen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(w.text.String()) {
		if strings.TrimRight(line, "\r\n") == w.line {
			return true
		}
	}
	return false
}

func (w *lineWatcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
