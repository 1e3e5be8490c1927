package subid

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gofrs/flock"
)

// BlockSize is how many ids a block has. Its first is the namespace's root, its
// second the identity; the others are kept for identities to come.
const BlockSize = 16

// ErrAllLeased says that every block is in use.
var ErrAllLeased = errors.New("every block of ids is in use (remove old sessions)")

// Blocks is how many blocks the range has, block 0 included, which is the
// supervisor's.
func (r Range) Blocks() uint32 { return r.Count / BlockSize }

// Block is the first id of the block.
func (r Range) Block(n uint32) uint32 { return r.First + n*BlockSize }

// Pool leases the blocks of a range from 1 on. Dir holds the locks.
type Pool struct {
	Dir   string
	Range Range
}

// Lease is one block that no other session has.
type Lease struct {
	Number uint32
	First  uint32 // host id of the block's first
	lock   *flock.Flock
}

// Lease locks the first block that is free: not locked by a process, and not,
// by the word of inUse, the owner of files that are still there. inUse is asked
// while the block is locked, so that its answer stays true; it may be nil.
func (p Pool) Lease(inUse func(first uint32) (bool, error)) (*Lease, error) {
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("lease ids: %w", err)
	}
	for n := uint32(1); n < p.Range.Blocks(); n++ {
		l, err := p.try(n, inUse)
		if err != nil {
			return nil, fmt.Errorf("lease ids: block %d: %w", n, err)
		}
		if l != nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("lease ids: %w", ErrAllLeased)
}

func (p Pool) try(n uint32, inUse func(uint32) (bool, error)) (*Lease, error) {
	lock := flock.New(filepath.Join(p.Dir, strconv.FormatUint(uint64(n), 10)+".lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil || !ok {
		return nil, err
	}
	l := &Lease{Number: n, First: p.Range.Block(n), lock: lock}
	if inUse == nil {
		return l, nil
	}
	used, err := inUse(l.First)
	if err != nil || used {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// Release gives the block back. The lock's file stays: removing it would let
// two processes lock two files of one name.
func (l *Lease) Release() error { return l.lock.Unlock() }
