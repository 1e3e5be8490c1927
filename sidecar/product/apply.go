package product

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// Progress is told of every path after it was written or removed.
type Progress func(done, total int, path string)

// IncompleteError says what an apply did not write or remove. Planning and
// applying again completes it.
type IncompleteError struct {
	Missing []string // up to 1000 paths
	Total   int      // all of them
	Err     error    // why
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%d paths are not written, the first is %q: %v", e.Total, e.Missing[0], e.Err)
}

func (e *IncompleteError) Unwrap() error { return e.Err }

// ApplyResult is what an apply did.
type ApplyResult struct {
	Written int
	Removed int
	// Kept are directories that the session removed, and that hold something
	// that it did not know.
	Kept []string
}

// Apply writes the plan. Files are written beside their place, synced, and take
// it by one rename, after their bytes proved to be the sealed ones and the
// product's own to be those of the plan. It makes no setuid or setgid file. What
// it replaces keeps its owner; what is new gets its directory's. A file that it
// could not write before an error is in the *IncompleteError.
func (p *Plan) Apply(ctx context.Context, progress Progress) (ApplyResult, error) {
	w := &writer{
		ctx: ctx, plan: p, progress: progress, product: newDirs(int(p.in.Product.Fd())), stage: newDirs(int(p.in.Stage.Fd())),
		done: make([]bool, len(p.actions)), touched: make(map[string]bool), buf: make([]byte, readBuffer),
	}
	defer w.product.close()
	defer w.stage.close()
	w.clearSettled()
	err := w.run()
	if err == nil {
		err = w.syncDirs()
	}
	if err != nil {
		return w.result, fmt.Errorf("apply: %w", w.incomplete(err))
	}
	return w.result, nil
}

type writer struct {
	ctx      context.Context
	plan     *Plan
	progress Progress
	product  *dirs
	stage    *dirs
	buf      []byte
	done     []bool
	count    int
	touched  map[string]bool // directories to sync
	result   ApplyResult
}

func (w *writer) incomplete(err error) error {
	e := &IncompleteError{Err: err}
	for i, a := range w.plan.actions {
		if w.done[i] {
			continue
		}
		if e.Total++; len(e.Missing) < 1000 {
			e.Missing = append(e.Missing, a.path)
		}
	}
	if e.Total == 0 {
		return err
	}
	return e
}

// run goes through the actions in an order in which an interruption leaves too
// much rather than too little: what a file needs out of its place, directories,
// contents, removals, modes of directories.
func (w *writer) run() error {
	isDir := func(e *Entry) bool { return e != nil && e.Type == TypeDir }
	for _, pass := range []struct {
		backward bool
		picks    func(a *action) bool
		do       func(a *action) error
	}{
		{true, func(a *action) bool { return a.after == nil && a.early }, w.remove},
		{false, func(a *action) bool { return isDir(a.after) && !(a.now.there && a.now.isDir()) }, w.makeDir},
		{false, func(a *action) bool { return a.after != nil && !isDir(a.after) }, w.write},
		{true, func(a *action) bool { return a.after == nil && !a.early }, w.remove},
		{true, func(a *action) bool { return isDir(a.after) }, w.dirMode},
	} {
		var order []int
		for i := range w.plan.actions {
			if pass.picks(&w.plan.actions[i]) {
				order = append(order, i)
			}
		}
		if pass.backward {
			slices.Reverse(order)
		}
		for _, i := range order {
			if err := w.ctx.Err(); err != nil {
				return err
			}
			a := &w.plan.actions[i]
			if err := pass.do(a); err != nil {
				return fmt.Errorf("%q: %w", a.path, err)
			}
			w.finished(i)
		}
	}
	return nil
}

func (s *state) isDir() bool { return typeOf(s.st.Mode) == TypeDir }

// finished counts a path; new directories come again for their modes.
func (w *writer) finished(i int) {
	if w.done[i] {
		return
	}
	w.done[i] = true
	w.count++
	a := &w.plan.actions[i]
	if a.after == nil {
		w.result.Removed++
	} else {
		w.result.Written++
	}
	if w.progress != nil {
		w.progress(w.count, len(w.plan.actions), a.path)
	}
}

var errMoved = errors.New("the product changed after it was checked")

// unmoved makes sure that the product has at a's path what the plan saw there.
func (w *writer) unmoved(dir int, name string, a *action) error {
	st, err := statAt(dir, name)
	switch {
	case errors.Is(err, unix.ENOENT) && !a.now.there:
		return nil
	case errors.Is(err, unix.ENOENT) || err == nil && !a.now.there:
		return errMoved
	case err != nil:
		return err
	}
	if a.now.isDir() { // what is in it is checked by itself
		st.Size, st.Mtim, st.Ctim = a.now.st.Size, a.now.st.Mtim, a.now.st.Ctim
	}
	if !sameState(&st, &a.now.st) {
		return errMoved
	}
	return nil
}

// remove takes away what the baseline had.
func (w *writer) remove(a *action) error {
	dir, name, err := w.at(a)
	if err != nil {
		return err
	}
	if err := w.unmoved(dir, name, a); err != nil {
		return err
	}
	if !a.now.isDir() {
		return unix.Unlinkat(dir, name, 0)
	}
	w.product.forget(a.path)
	err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		w.result.Kept = append(w.result.Kept, a.path)
		w.result.Removed--
		return nil
	}
	return err
}

// at opens the directory of a's path in the product.
func (w *writer) at(a *action) (int, string, error) {
	dir, name, err := w.product.parent(a.path)
	if err != nil {
		return -1, "", fmt.Errorf("open its directory: %s", openFact("", err).Detail)
	}
	w.touched[parentOf(a.path)] = true
	return dir, name, nil
}

func parentOf(path string) string { return path[:len(path)-len(base(path))] }

// temp is the name under which a path is written. It follows from the seal and
// the path, so that the next run finds what an interrupted one left.
func (w *writer) temp(path string) string {
	sum := sha256.Sum256(append(w.plan.in.SealedSHA256[:], path...))
	return ".proctor-apply-" + hex.EncodeToString(sum[:12])
}

// makeDir makes a directory, or puts one in the place of a file or link.
func (w *writer) makeDir(a *action) error {
	dir, name, err := w.at(a)
	if err != nil {
		return err
	}
	temp := w.temp(a.path)
	if err := clear(dir, temp); err != nil {
		return err
	}
	if err := unix.Mkdirat(dir, temp, 0o700); err != nil {
		return err
	}
	made, err := openMade(dir, temp, TypeDir)
	if err != nil {
		return errors.Join(err, clear(dir, temp))
	}
	defer unix.Close(made)
	if err = w.own(dir, made, a); err == nil {
		err = w.place(dir, temp, name, made, a)
	}
	if err != nil {
		return errors.Join(err, clear(dir, temp))
	}
	w.product.forget(a.path)
	return nil
}

// clear removes a temporary file, link or empty directory.
func clear(dir int, temp string) error {
	err := unix.Unlinkat(dir, temp, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(dir, temp, unix.AT_REMOVEDIR)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// clearSettled removes what an interrupted run left behind. What it cannot
// remove is in nobody's way.
func (w *writer) clearSettled() {
	for _, path := range w.plan.settled {
		if dir, _, err := w.product.parent(path); err == nil {
			_ = clear(dir, w.temp(path))
		}
	}
}

// place gives temp, which is the open file made, the name in one step, and
// removes what was there.
func (w *writer) place(dir int, temp, name string, made int, a *action) error {
	if err := w.unmoved(dir, name, a); err != nil {
		return err
	}
	var err error
	switch {
	case !a.now.there:
		err = unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE)
	case (a.after.Type == TypeDir) == a.now.isDir():
		err = unix.Renameat(dir, temp, dir, name)
	default:
		err = w.exchange(dir, temp, name, a)
	}
	if err != nil {
		return err
	}
	// Somebody who writes the product too could have put another file under
	// the temporary name.
	st, err := statAt(dir, name)
	if err != nil {
		return err
	}
	if own, err := fstat(made); err != nil || idOf(&own) != idOf(&st) {
		return errors.Join(err, errMoved)
	}
	return nil
}

// exchange puts temp in the place of a directory, or a directory in the place of
// a file, and removes what it replaced.
func (w *writer) exchange(dir int, temp, name string, a *action) error {
	if err := unix.Renameat2(dir, temp, dir, name, unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	w.product.forget(a.path)
	if err := clear(dir, temp); err != nil { // somebody filled the directory
		return errors.Join(err, unix.Renameat2(dir, temp, dir, name, unix.RENAME_EXCHANGE))
	}
	return nil
}

// own gives the open file made the owner of what it replaces, or of its
// directory. Only root can give anything away; for everybody else it is their
// own already. So it stays where the owner, or the group, is nobody whom this
// process's user namespace knows.
func (w *writer) own(dir, made int, a *action) error {
	st := a.now.st
	if !a.now.there {
		var err error
		if st, err = fstat(dir); err != nil {
			return err
		}
	}
	err := unix.Fchownat(made, "", int(st.Uid), int(st.Gid), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EPERM) && unix.Geteuid() != 0 || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// openMade opens a link or directory that was just made under the name temp, to
// give it away by descriptor: a name could be somebody else's file by now.
func openMade(dir int, temp string, want Type) (int, error) {
	fd, err := openBeneath(dir, temp, unix.O_PATH, 0)
	if err != nil {
		return -1, err
	}
	st, err := fstat(fd)
	if err == nil && (typeOf(st.Mode) != want || int(st.Uid) != unix.Geteuid() || want == TypeSymlink && st.Nlink != 1) {
		err = errMoved
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// dirMode gives a directory its mode when everything in it is written.
func (w *writer) dirMode(a *action) error {
	dir, name, err := w.at(a)
	if err != nil {
		return err
	}
	fd, err := openBeneath(dir, name, openDir, 0)
	if err != nil {
		return errors.New(openFact("", err).Detail)
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, a.after.Mode&^setIDBits)
}

// syncDirs makes the renames and removals durable.
func (w *writer) syncDirs() error {
	for _, path := range slices.Sorted(maps.Keys(w.touched)) {
		dir, _, err := w.product.parent(path + "x")
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			continue // removed or replaced meanwhile, by us
		}
		if err != nil {
			return fmt.Errorf("sync directory %q: %w", path, err)
		}
		fd, err := openBeneath(dir, ".", openDir, 0)
		if err != nil {
			return fmt.Errorf("sync directory %q: %w", path, err)
		}
		err = unix.Fsync(fd)
		unix.Close(fd)
		if err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("sync directory %q: %w", path, err)
		}
	}
	return nil
}
