// Package daemon runs a container engine's daemon for a test: it starts it,
// ends it with the test, also a test that is killed, and removes what a daemon
// that died has left behind.
package daemon
