// Package doortest is what the tests of all doors share: whether a door holds
// more after many requests than after few, and what a thousand open connections
// take.
//
// Both look at the whole process, the test's own clients and servers included,
// so a door's own part is smaller than what they say.
//
//	doortest.Soak(t, func(n int) { for range n { get() } })
package doortest
