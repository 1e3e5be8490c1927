package sandbox

import "regexp"

// sessionID is deliberately narrower than what file systems and engines take:
// it becomes a directory, a container, a volume and a cgroup name.
func sessionID() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`) }

// ValidSession reports whether a string can be a session id: 1 to 63 lower
// case letters, digits and dashes, not starting with a dash.
func ValidSession(id string) bool { return sessionID().MatchString(id) }
