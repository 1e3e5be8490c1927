// Package dockertest starts a private Docker daemon for tests and benchmarks:
// own data, own socket, own cgroup, no network, nothing shared with a daemon
// that the machine may run, and nothing left when the test has ended.
//
// If PROCTOR_TEST_DOCKER_HOST names a daemon (unix:///path), that one is used
// and left running. Without a dockerd, or without root to start it, the test is
// skipped; where CI is set it fails instead.
//
//	d := dockertest.Start(t)
//	engine, err := docker.New(docker.Config{Host: d.Host, Supervisor: 64003})
package dockertest
