package product

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Owner is who the copy belongs to.
type Owner struct{ UID, GID uint32 }

// StageOptions say what Stage copies and to whom it gives the copy.
type StageOptions struct {
	Limits    Limits
	Extractor Extractor
	// Exclude names what stays out, directories with all that is in them. It
	// is called with paths below the root; nil excludes nothing.
	Exclude func(path string) bool
	// Owner of every copied entry and of dst; nil leaves the caller's own.
	Owner *Owner
}

const setIDBits = unix.S_ISUID | unix.S_ISGID

// ErrStage is the error of an original that cannot be copied.
var ErrStage = errors.New("product cannot be staged")

// Stage copies the tree below src into the empty directory dst and gives the
// copy's entries to sink, as Walk does, with each digest taken from the bytes
// that were written. The copy has the original's permission bits without setuid
// and setgid, its modification times and its symbolic links as they are; hard
// links become files of their own. FIFOs, sockets, devices, mount points,
// excluded paths and files that never stopped changing are left out and named by
// FactLeftOut. What cannot be read or is over a limit is an error that wraps
// ErrStage and names up to 20 paths; the copy is then useless.
func Stage(ctx context.Context, src, dst *os.File, opts StageOptions, sink Sink) error {
	if err := stage(ctx, src, dst, opts, sink); err != nil {
		return fmt.Errorf("stage product: %w", err)
	}
	return nil
}

func stage(ctx context.Context, src, dst *os.File, opts StageOptions, sink Sink) error {
	s := &stager{opts: opts, dst: int(dst.Fd())}
	w, err := newWalker(ctx, src, WalkOptions{Limits: opts.Limits, Extractor: opts.Extractor}, s)
	if err != nil {
		return err
	}
	if err := w.run(sink); err != nil {
		return err
	}
	if err := s.problems(); err != nil {
		return err
	}
	if opts.Extractor == nil {
		return nil
	}
	return finish(opts.Extractor, &Tree{root: s.dst}, w.limits, sink)
}

// stager is the writing side of a walk.
type stager struct {
	opts    StageOptions
	dst     int
	noClone atomic.Bool // the file system cannot share blocks

	mu    sync.Mutex
	bad   []error
	total int
}

// fail notes that path cannot be copied.
func (s *stager) fail(path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total++; len(s.bad) < 20 {
		s.bad = append(s.bad, fmt.Errorf("%q: %w", path, err))
	}
}

func (s *stager) problems() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total == 0 {
		return nil
	}
	err := errors.Join(s.bad...)
	if more := s.total - len(s.bad); more > 0 {
		err = errors.Join(err, fmt.Errorf("and %d more", more))
	}
	return fmt.Errorf("%w: %w", ErrStage, err)
}

// fact turns what breaks a walk into what Stage does about it.
func (s *stager) fact(f Fact) Fact {
	switch f.Kind {
	case FactMount:
		f.Kind = FactLeftOut
	case FactChanged:
		f.Kind, f.Detail = FactLeftOut, "it changes while it is read"
	case FactUnreadable, FactLimit:
		s.fail(f.Path, errors.New(f.Detail))
	}
	return f
}

func (s *stager) excluded(path string) bool {
	return s.opts.Exclude != nil && s.opts.Exclude(path)
}

// openRoot gives the root level its copy, which has to be empty.
func (s *stager) openRoot(root *level) error {
	fd, err := unix.Openat(s.dst, ".", openDir, 0)
	if err != nil {
		return fmt.Errorf("open copy: %w", err)
	}
	names, _, err := readNames(fd, 1<<20, make([]byte, 4<<10))
	if err == nil && len(names) > 0 {
		err = errors.New("not empty")
	}
	if err == nil {
		_, err = unix.Seek(fd, 0, unix.SEEK_SET)
	}
	st, statErr := fstat(fd)
	if err = errors.Join(err, statErr); err != nil {
		unix.Close(fd)
		return fmt.Errorf("open copy: %w", err)
	}
	root.dir.out, root.outID = fd, idOf(&st)
	return nil
}

func (s *stager) makeDir(out int, name string) error {
	return ignoringEINTR(func() error { return unix.Mkdirat(out, name, 0o700) })
}

// openDir opens the copy of the directory name for the level next.
func (s *stager) openDir(out int, name string, next *level) error {
	fd, err := openBeneath(out, name, openDir, 0)
	if err != nil {
		return fmt.Errorf("open copy: %w", err)
	}
	st, err := fstat(fd)
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("stat copy: %w", err)
	}
	next.dir.out, next.outID = fd, idOf(&st)
	return nil
}

// finishDir gives a directory's copy its owner, mode and times, when nothing
// more is written into it.
func (s *stager) finishDir(it *item) error {
	if err := s.finish(it.dir.out, it.meta.Mode, it.meta.Mtim); err != nil {
		return fmt.Errorf("directory %q: %w", it.path, err)
	}
	return nil
}

// finish gives the open copy its times, mode and, last, its owner.
func (s *stager) finish(fd int, mode uint32, mtime unix.Timespec) error {
	if err := unix.UtimesNanoAt(fd, "", []unix.Timespec{mtime, mtime}, unix.AT_EMPTY_PATH); err != nil {
		return fmt.Errorf("set times of copy: %w", err)
	}
	if err := unix.Fchmod(fd, mode&0o7777&^setIDBits); err != nil {
		return fmt.Errorf("set mode of copy: %w", err)
	}
	if o := s.opts.Owner; o != nil {
		if err := unix.Fchown(fd, int(o.UID), int(o.GID)); err != nil {
			return fmt.Errorf("give away copy: %w", err)
		}
	}
	return nil
}

// makeLink copies the link it.
func (s *stager) makeLink(it *item, target string) {
	err := unix.Symlinkat(target, it.dir.out, it.name)
	if err == nil && s.opts.Owner != nil {
		o := s.opts.Owner
		err = unix.Fchownat(it.dir.out, it.name, int(o.UID), int(o.GID), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		it.known = false
		s.fail(it.path, fmt.Errorf("write copy: %w", err))
	}
}
