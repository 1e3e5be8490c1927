// Package ocispec is what every configuration of an OCI runtime is made of here,
// whichever engine hands it over, and how the mounts of the made container are
// held against it.
package ocispec
