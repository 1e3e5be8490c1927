package subid

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// BlockSize is how many ids a block has.
const BlockSize = 16

// Block is a leased run of BlockSize ids. It is free again when its holder is
// gone: then nothing owned by its ids is left.
type Block struct {
	First uint32
	path  string // of the lease
}

// Lease takes a free block for the directory holder, which must exist: the
// block is its for as long as it exists, also when this process is gone, so
// that no later session owns the files of an earlier one. A holder that has a
// block gets the same one. dir is where the
// account keeps its leases; all of an account's launchers use the same.
func Lease(ctx context.Context, dir string, r Range, holder string) (Block, error) {
	if _, err := os.Lstat(holder); err != nil {
		return Block{}, fmt.Errorf("lease ids: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Block{}, fmt.Errorf("lease ids: %w", err)
	}
	unlock, err := lockLeases(ctx, dir)
	if err != nil {
		return Block{}, err
	}
	defer unlock()
	if b, ok, err := leased(dir, r, holder); err != nil || ok {
		return b, err
	}
	for first := uint64(r.First); first+BlockSize <= uint64(r.First)+uint64(r.Count); first += BlockSize {
		b := Block{First: uint32(first), path: filepath.Join(dir, strconv.FormatUint(first, 10))}
		held, err := b.heldByAnother()
		if err != nil {
			return Block{}, fmt.Errorf("lease ids: %w", err)
		}
		if held {
			continue
		}
		if err := renameio.WriteFile(b.path, []byte(holder), 0o600); err != nil {
			return Block{}, fmt.Errorf("lease ids: %w", err)
		}
		return b, nil
	}
	return Block{}, fmt.Errorf("lease ids: all blocks of %d:%d are in use", r.First, r.Count)
}

// leased is the block that the holder has already.
func leased(dir string, r Range, holder string) (Block, bool, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return Block{}, false, fmt.Errorf("lease ids: %w", err)
	}
	for _, n := range names {
		first, err := strconv.ParseUint(n.Name(), 10, 32)
		if err != nil || !(Range{uint32(first), BlockSize}).within(r) {
			continue
		}
		b := Block{First: uint32(first), path: filepath.Join(dir, n.Name())}
		if by, err := os.ReadFile(b.path); err == nil && string(by) == holder {
			return b, true, nil
		}
	}
	return Block{}, false, nil
}

func lockLeases(ctx context.Context, dir string) (func(), error) {
	lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLockContext(ctx, 20*time.Millisecond)
	if err != nil || !ok {
		return nil, fmt.Errorf("lock leases: %w", err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// heldByAnother reports whether the block's holder still exists.
func (b Block) heldByAnother() (bool, error) {
	holder, err := os.ReadFile(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = os.Lstat(string(holder))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		// What cannot be looked at may be there.
		return true, nil
	}
}
