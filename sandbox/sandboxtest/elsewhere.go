package sandboxtest

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/proctor-project/proctor/sandbox"
)

// What follows is for a place that is no Engine, because an orchestrator starts
// its containers: a Pod. It runs the payload as an agent or a check, and says of
// each property of the suite where it is asserted there, or why it cannot be.

// Properties are the names of what the suite asserts, in its order.
func Properties() []string {
	s := &suite{f: Fixture{Tampered: func(testing.TB, Tamper) sandbox.Engine { return nil }}}
	var all []string
	for _, test := range s.tests() {
		all = append(all, test.name)
	}
	return all
}

// KernelSurface is what no container may do, as arguments of the payload's try.
func KernelSurface() [][]string {
	var all [][]string
	for _, o := range kernelSurface() {
		all = append(all, o)
	}
	return all
}

// Tried are the results of a payload's try, from what it printed.
type Tried []attempt

// Read reads them; there have to be as many as were asked for.
func Read(t testing.TB, printed string, asked int) Tried {
	t.Helper()
	var all []attempt
	if err := json.Unmarshal([]byte(printed), &all); err != nil || len(all) != asked {
		t.Fatalf("the payload did %d operations of %d: %v: %s", len(all), asked, err, printed)
	}
	return all
}

// Want compares the errors with a list, "" being success.
func (r Tried) Want(t testing.TB, errs ...string) {
	t.Helper()
	want(t, r[:len(errs)], errs...)
}

// Refused fails for each that was not.
func (r Tried) Refused(t testing.TB) {
	t.Helper()
	allRefused(t, r)
}

// Into reads the value of one of them.
func (r Tried) Into(t testing.TB, i int, v any) {
	t.Helper()
	r[i].into(t, v)
}

// Waiting is the payload's process with that token, which it waits for.
func Waiting(t testing.TB, token string) int {
	t.Helper()
	var pids []int
	await(t, "the payload's process", func() bool { pids = processesWith(t, token); return len(pids) > 0 })
	return pids[0]
}

// Namespace is a process's, as the host names it.
func Namespace(t testing.TB, pid int, name string) string {
	t.Helper()
	if pid == 0 {
		return namespace(t, "self", name)
	}
	return namespace(t, strconv.Itoa(pid), name)
}
