// Package cgroup reads, kills and removes the cgroups of containers, of either
// version of the kernel's interface. Paths are below the hierarchies' roots.
package cgroup
