package docker

// daemon is what Info said about the daemon.
type daemon struct{}
