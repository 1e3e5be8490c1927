// Package product reads, copies and writes the operator's product as the
// hostile directory tree that it is.
//
// Walk turns a tree into a Stream of entries and facts, Stage does the same
// while it copies, Manifest is the stream's entries alone, and Apply brings the
// sealed bytes of a stage home.
//
// # What it defends against
//
// Every open is one component, relative to the descriptor of the directory that
// holds it, by openat2 with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS,
// RESOLVE_NO_MAGICLINKS and RESOLVE_NO_XDEV, and is followed by fstat. A
// symbolic link is read as bytes and never followed, also when it takes a
// directory's place in the middle of a walk. FIFOs, sockets and devices are
// never opened on purpose, and O_NONBLOCK keeps one that appears in a file's
// place from hanging the walk. Depth costs no descriptors and no stack, names
// and paths may be any bytes, and every quantity has a limit whose excess is a
// fact in the stream, not a hang.
//
// # What it does not do
//
// It judges nothing (package audit does), keeps no secret, and runs no program.
// A walk of a tree that somebody still writes describes each file as it was
// when it was read, not the tree at one moment; proctor audits a tree only when
// its writers are gone. Extended attributes other than file capabilities, access
// control lists and times are not part of a digest.
//
// # The tree digest
//
// The tree digest is the SHA-256 of the bytes
//
//	"proctor tree v1\n"
//
// followed by one record for each entry, in the byte order of the paths:
//
//	length   4 bytes, big endian: the number of bytes that follow in the record
//	type     1 byte: d directory, f file, l symbolic link, p FIFO, s socket,
//	         b block device, c character device
//	mode     4 bytes, big endian: permission bits, 07777
//	size     8 bytes, big endian: bytes of content or of link target, else 0
//	sha256   32 bytes: of the content, of the link target, or of a device's
//	         "major:minor"; zero for directories, FIFOs and sockets
//	path     the rest: raw bytes, relative to the root, slash separated
//
// The root directory itself has no entry: its name, mode and owner belong to
// whoever mounts it. Nothing else is left out. The "worktree" digest is the same
// over the entries of which no path component is ".git". The "git-exec" digest
// is the SHA-256 of "proctor git-exec v1\n" and, for each fact whose kind is one
// of git-config, git-hook, git-link, git-program and git-include, in the stream's
// order, the fact's JSON with its length before it (4 bytes, big endian).
//
// A tree that could not be read in full has no digests: they are zero and
// Summary.Complete is false, so that two unreadable trees are never equal.
//
// # Example
//
//	enc := product.NewEncoder(out)
//	if err := product.Walk(ctx, root, product.WalkOptions{}, enc); err != nil {
//		return err
//	}
//	sum, err := enc.Close()
package product
