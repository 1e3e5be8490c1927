// Package docs holds the documentation and the tests that keep it true: its
// commands run, its links lead somewhere, and the tests that its claims name
// exist.
package docs
