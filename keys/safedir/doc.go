// Package safedir opens directories of keys and control, and the files in
// them, such that no other user can have prepared what is found there.
//
// A directory is reached from / one component at a time, each opened without
// following links and judged on its descriptor; a link on the way is followed
// by hand, and only if root or the process's own user made it. Files are opened
// relative to the directory, without following links and without blocking, and
// judged on the descriptor: a regular file of one link, of the process's own
// user, closed to group and others.
//
// It defends against other users of the host: links, FIFOs, hard links and
// directories that they own or can write. It does not defend against root, nor
// against a process of the same user.
//
//	d, err := safedir.Open("/keys/root", safedir.Rules{Place: safedir.Mount})
//	if err != nil {
//		return err
//	}
//	defer d.Close()
//	key, err := d.ReadFile("epoch-1.key", 4096)
package safedir
