package product

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
)

var (
	errOrder = errors.New("entries are not in the byte order of their paths")
	errDone  = errors.New("stream is already closed")
)

// accumulator computes a Summary and holds the rules that a stream's writer and
// reader share.
type accumulator struct {
	tree, worktree, gitExec hash.Hash
	sum                     Summary
	last                    string
	buf                     []byte
	broken                  bool
}

func newAccumulator() *accumulator {
	a := &accumulator{tree: sha256.New(), worktree: sha256.New(), gitExec: sha256.New()}
	a.tree.Write([]byte("proctor tree v1\n"))
	a.worktree.Write([]byte("proctor tree v1\n"))
	a.gitExec.Write([]byte("proctor git-exec v1\n"))
	return a
}

func (a *accumulator) entry(e *Entry) error {
	if err := e.check(); err != nil {
		return err
	}
	if a.sum.Entries > 0 && e.Path <= a.last {
		return fmt.Errorf("%w: %q after %q", errOrder, e.Path, a.last)
	}
	a.last = e.Path
	a.sum.Entries++
	if e.Type == TypeFile && e.SHA256 != ([32]byte{}) {
		a.sum.Bytes += e.Size
	}
	a.buf = appendRecord(a.buf[:0], e)
	a.tree.Write(a.buf)
	if !InGit(e.Path) {
		a.worktree.Write(a.buf)
	}
	return nil
}

// appendRecord appends e's record of the tree digest; doc.go defines it.
func appendRecord(dst []byte, e *Entry) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(1+4+8+32+len(e.Path)))
	dst = append(dst, e.Type.code())
	dst = binary.BigEndian.AppendUint32(dst, e.Mode)
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Size))
	dst = append(dst, e.SHA256[:]...)
	return append(dst, e.Path...)
}

func (a *accumulator) fact(f *Fact, encoded []byte) error {
	if err := f.check(); err != nil {
		return err
	}
	a.sum.Facts++
	if f.Kind.Breaks() {
		a.broken = true
	}
	if f.Kind.GitExec() {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(encoded)))
		a.gitExec.Write(n[:])
		a.gitExec.Write(encoded)
	}
	return nil
}

func (a *accumulator) summary() Summary {
	s := a.sum
	if s.Complete = !a.broken; s.Complete {
		s.Tree = hex.EncodeToString(a.tree.Sum(nil))
		s.Worktree = hex.EncodeToString(a.worktree.Sum(nil))
		s.GitExec = hex.EncodeToString(a.gitExec.Sum(nil))
	}
	return s
}
