// Package containerdtest starts a private containerd for tests and benchmarks:
// own data, own socket, nothing shared with a daemon that the machine may run,
// and nothing left when the test has ended.
//
// It is the containerd in PATH, or, where PROCTOR_TEST_CONTAINERD names a
// directory, the one there, with its shims. If PROCTOR_TEST_CONTAINERD_ADDRESS
// names a daemon's socket, that one is used and left running. Without a
// containerd, or without root to start it, the test is skipped; where CI is set
// it fails instead.
//
//	d := containerdtest.Start(t)
//	engine, err := containerd.New(containerd.Config{Address: d.Address, Home: home, Supervisor: 64003})
package containerdtest
