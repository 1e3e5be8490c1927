// Package userns runs a command in a user namespace of its own: with the ids
// that the caller maps and with no others, with no supplementary group, and
// with nothing of the caller's but the standard streams and the files that are
// handed over.
//
// It is how a root launcher copies a hostile tree without root's power over
// the host (a link that is swapped in while the copy runs leads to nothing
// that the tree's owner could not read anyway), and how an ordinary user
// changes what belongs to that user's subordinate ids.
//
// The id 0 inside is the namespace's root: it has every capability over the
// mapped ids, and none over the host. A process of the namespace is not
// otherwise confined: it sees the host's files, processes and network with the
// rights of the mapped ids. Use a sandbox.Engine for code that nobody trusts.
//
// Root writes the maps directly. An ordinary user needs newuidmap and
// newgidmap, and the program that calls Run must be able to become the child:
//
//	func main() {
//		if code, ok := userns.Child(os.Args); ok {
//			os.Exit(code)
//		}
//		...
//	}
//
// Example, as root, with the tree's owner as the namespace's root:
//
//	err := userns.Run(ctx, userns.Config{
//		Maps:  []userns.Map{{Inside: 0, Host: owner, Group: &group}, {Inside: 64001, Host: leased}},
//		Argv:  []string{sidecar, "stage"},
//		ExtraFiles: []*os.File{original, stage},
//		Stdout: stream,
//		Stderr: os.Stderr,
//	})
package userns
