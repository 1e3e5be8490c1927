// Package parts keeps keys and control as directories below a home that only the
// launcher enters, each of them the supervisor's own.
package parts
