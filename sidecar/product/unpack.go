package product

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// UnpackOptions say what Unpack expects and to whom it gives the tree.
type UnpackOptions struct {
	Limits Limits
	// StreamSHA256 and Tree are what the tree stream, and the tree, have to be, in
	// hex. One of them is known.
	StreamSHA256 string
	Tree         string
	// SkipSpecial leaves out what is no directory, file or link. Without it, such a
	// tree is refused.
	SkipSpecial bool
	// Owner of every entry and of dst; nil leaves the caller's own, and dst as
	// it is.
	Owner *Owner
}

// Unpack makes the tree of a parcel in the empty directory dst and keeps the
// tree stream in stream, an empty file. Nothing is written into dst before the
// stream is known to be the expected one, and nothing is believed of the rest:
// an error leaves a tree that is useless.
func Unpack(ctx context.Context, r io.Reader, dst, stream *os.File, opts UnpackOptions) (Summary, error) {
	sum, err := unpack(ctx, r, dst, stream, opts)
	if err != nil {
		return sum, fmt.Errorf("unpack: %w: %w", ErrParcel, err)
	}
	return sum, nil
}

func unpack(ctx context.Context, r io.Reader, dst, stream *os.File, opts UnpackOptions) (Summary, error) {
	opts.Limits = opts.Limits.withDefaults()
	in := bufio.NewReaderSize(r, readBuffer)
	sum, err := keepStream(in, stream, opts)
	if err != nil {
		return sum, err
	}
	u := &unpacker{ctx: ctx, in: in, opts: opts, dirs: newDirs(int(dst.Fd())), sum: sha256.New(), buf: make([]byte, readBuffer)}
	defer u.dirs.close()
	if err := u.rootIsEmpty(dst); err != nil {
		return sum, err
	}
	if err := eachEntry(ctx, stream, u.entry); err != nil {
		return sum, err
	}
	if err := u.finish(""); err != nil {
		return sum, err
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return sum, errors.New("bytes after the last content")
	}
	if o := opts.Owner; o != nil {
		return sum, unix.Fchown(int(dst.Fd()), int(o.UID), int(o.GID))
	}
	return sum, nil
}

// keepStream reads the tree stream to its end, into the file.
func keepStream(in *bufio.Reader, stream *os.File, opts UnpackOptions) (Summary, error) {
	sha, w := sha256.New(), bufio.NewWriterSize(stream, readBuffer)
	dec := NewDecoder(io.TeeReader(NewSingle(in), io.MultiWriter(sha, w)), StreamLimits{Entries: opts.Limits.Entries})
	for {
		_, err := dec.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Summary{}, err
		}
	}
	sum, err := dec.Summary()
	if err != nil {
		return sum, err
	}
	if got := hex.EncodeToString(sha.Sum(nil)); got != opts.StreamSHA256 && opts.Tree == "" {
		return sum, fmt.Errorf("its tree stream has the digest %s, and was announced with %s", got, opts.StreamSHA256)
	}
	if opts.Tree != "" && opts.Tree != sum.Tree {
		return sum, fmt.Errorf("its tree is %s, and was announced as %s", sum.Tree, opts.Tree)
	}
	if !sum.Complete {
		return sum, errors.New("the tree was not read in full")
	}
	if sum.Bytes > opts.Limits.TotalBytes {
		return sum, errors.New("over the limit: bytes of content")
	}
	if err := w.Flush(); err != nil {
		return sum, err
	}
	_, err = stream.Seek(0, io.SeekStart)
	return sum, err
}

type unpacker struct {
	ctx     context.Context
	in      *bufio.Reader
	opts    UnpackOptions
	dirs    *dirs
	sum     hash.Hash
	buf     []byte
	pending []pendingDir // made, and not yet past
}

// pendingDir gets its own mode when everything below it is there.
type pendingDir struct {
	path string
	mode uint32
}

func (u *unpacker) rootIsEmpty(dst *os.File) error {
	fd, err := openBeneath(int(dst.Fd()), ".", openDir, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	names, _, err := readNames(fd, 1<<20, make([]byte, 4<<10))
	if err == nil && len(names) > 0 {
		err = errors.New("the directory to unpack into is not empty")
	}
	return err
}

func (u *unpacker) entry(e *Entry) error {
	if err := u.finish(e.Path); err != nil {
		return err
	}
	if err := u.make(e); err != nil {
		return fmt.Errorf("%q: %w", e.Path, err)
	}
	return nil
}

func (u *unpacker) make(e *Entry) error {
	if e.Type.Special() {
		if u.opts.SkipSpecial {
			return nil
		}
		return fmt.Errorf("a %s", e.Type)
	}
	if e.Size > u.opts.Limits.FileBytes {
		return errors.New("over the limit: bytes of content")
	}
	dir, name, err := u.dirs.parent(e.Path)
	if err != nil {
		return err
	}
	switch e.Type {
	case TypeDir:
		if err := ignoringEINTR(func() error { return unix.Mkdirat(dir, name, 0o700) }); err != nil {
			return err
		}
		u.pending = append(u.pending, pendingDir{e.Path, e.Mode})
		return nil
	case TypeSymlink:
		return u.link(dir, name, e)
	}
	return u.file(dir, name, e)
}

func (u *unpacker) link(dir int, name string, e *Entry) error {
	if e.Size > maxTarget {
		return unix.ENAMETOOLONG
	}
	target := u.buf[:e.Size]
	if _, err := io.ReadFull(u.in, target); err != nil {
		return cutShort(err)
	}
	if sha256.Sum256(target) != e.SHA256 {
		return errors.New("its target is another one")
	}
	if err := unix.Symlinkat(string(target), dir, name); err != nil {
		return err
	}
	if o := u.opts.Owner; o != nil {
		return unix.Fchownat(dir, name, int(o.UID), int(o.GID), unix.AT_SYMLINK_NOFOLLOW)
	}
	return nil
}

func (u *unpacker) file(dir int, name string, e *Entry) error {
	fd, err := openBeneath(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	u.sum.Reset()
	for left := e.Size; left > 0; {
		piece := u.buf[:min(left, readBuffer)]
		if _, err := io.ReadFull(u.in, piece); err != nil {
			return cutShort(err)
		}
		u.sum.Write(piece)
		if err := write(fd, piece); err != nil {
			return err
		}
		if err := u.ctx.Err(); err != nil {
			return err
		}
		left -= int64(len(piece))
	}
	if [32]byte(u.sum.Sum(nil)) != e.SHA256 {
		return errors.New("its content is another one")
	}
	return u.give(fd, e.Mode)
}

// give sets an entry's mode, without setuid and setgid, and last its owner.
func (u *unpacker) give(fd int, mode uint32) error {
	if err := unix.Fchmod(fd, mode&^setIDBits); err != nil {
		return err
	}
	if o := u.opts.Owner; o != nil {
		return unix.Fchown(fd, int(o.UID), int(o.GID))
	}
	return nil
}

// finish gives their modes to the directories that path, the next one, is past;
// "" is past all of them.
func (u *unpacker) finish(path string) error {
	for i := len(u.pending) - 1; i >= 0; i-- {
		d := u.pending[i]
		if path != "" && (path < d.path+"/" || strings.HasPrefix(path, d.path+"/")) {
			continue
		}
		if err := u.finishDir(d); err != nil {
			return fmt.Errorf("%q: %w", d.path, err)
		}
		u.pending = slices.Delete(u.pending, i, i+1)
	}
	return nil
}

func (u *unpacker) finishDir(d pendingDir) error {
	u.dirs.forget(d.path)
	dir, name, err := u.dirs.parent(d.path)
	if err != nil {
		return err
	}
	fd, err := openBeneath(dir, name, openDir, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return u.give(fd, d.mode)
}
