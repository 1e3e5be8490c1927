// Package runtimes finds the OCI runtimes that the launcher uses, and judges
// their versions.
package runtimes
