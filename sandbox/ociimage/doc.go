// Package ociimage writes images of one layer: the same content makes the same
// bytes, so also the same digests, wherever and whenever it is written.
//
// No base image, builder or registry is involved. An archive is an OCI layout
// and what docker load reads at once.
package ociimage
