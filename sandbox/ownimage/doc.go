// Package ownimage makes the supervisor's image from the launcher's own static
// binary, for engines whose containers need an image. The same binary, owner and
// architecture make the same bytes, so also the same digests.
package ownimage
