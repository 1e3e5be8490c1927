// Package gvisor is what every engine here knows of runsc, gVisor's runtime:
// its options, what it cannot give, and how what it has made is read back.
//
// What a container is made of there:
//
//   - the sandbox process, the container's first as the engine sees it, is
//     gVisor's own kernel: it has the namespace's root as its host id, and the
//     payload has the identity only inside;
//   - the gofer opens files for it: its mounts are what the payload can reach;
//   - "rro" without "ro" is mounted read-write without a word, an overlay among
//     the mounts is left out without a word, and devices are never opened.
//
// A throw-away layer is therefore gVisor's own: all writable binds get one in
// memory, so that a container has layers or writable binds, never both.
//
// It does not defend against a sandbox that lies about its own inside: what only
// gVisor's kernel enforces is taken from what runsc has written down.
package gvisor
