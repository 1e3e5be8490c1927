// Package kernel is what the kernel says of a process: its ids, capabilities,
// namespaces, limits and mounts, and who has a directory mounted. Engines read
// back from here what was really made.
package kernel
