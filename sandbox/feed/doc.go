// Package feed copies what the launcher gives a container to read, until its end
// or until it is told to stop.
package feed
