// Package layer prepares, on the host, the upper side of a throw-away layer of
// limited size, over which an engine mounts an overlay: writes succeed in the
// container and are nowhere afterwards. The launcher must be root.
package layer
