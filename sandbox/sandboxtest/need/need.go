// Package need says what a test cannot do without. Where that is missing, a
// developer's machine skips the test, and CI fails it.
package need

import (
	"os"
	"testing"
)

// That ends the test unless ok; why is what is missing.
func That(t testing.TB, ok bool, why string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("CI") != "":
		t.Fatal(why)
	default:
		t.Skip(why)
	}
}

// Root ends the test of an ordinary user.
func Root(t testing.TB) {
	t.Helper()
	That(t, os.Geteuid() == 0, "needs root")
}
