package product

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A parcel carries a tree over one stream of bytes: its tree stream, then the
// contents of its files and the targets of its links, in the stream's order, each
// exactly as long as its entry says and with its entry's digest. Nothing follows.

// ErrParcel is the error of every parcel that is cut short, changed, or not what
// was announced.
var ErrParcel = errors.New("parcel is not well formed")

// Pack writes the tree below root as a parcel. stream is the tree's own, as Walk
// or Stage wrote it; it is read twice. A file that is not the stream's any more
// is an error, and the parcel is then cut.
func Pack(ctx context.Context, root *os.File, stream io.ReadSeeker, w io.Writer) error {
	out := bufio.NewWriterSize(w, readBuffer)
	if _, err := io.Copy(out, stream); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	if _, err := stream.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	p := packer{dirs: newDirs(int(root.Fd())), out: out, sum: sha256.New(), buf: make([]byte, readBuffer)}
	defer p.dirs.close()
	if err := eachEntry(ctx, stream, p.entry); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	return out.Flush()
}

// eachEntry calls do with the entries of a stream.
func eachEntry(ctx context.Context, stream io.Reader, do func(*Entry) error) error {
	dec := NewDecoder(stream, StreamLimits{})
	for {
		item, err := dec.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && item.Entry != nil {
			err = do(item.Entry)
		}
		if err != nil {
			return err
		}
	}
}

type packer struct {
	dirs *dirs
	out  *bufio.Writer
	sum  hash.Hash
	buf  []byte
}

func (p *packer) entry(e *Entry) error {
	if !hasContent(e) {
		return nil
	}
	if err := p.content(e); err != nil {
		return fmt.Errorf("%q: %w", e.Path, err)
	}
	return nil
}

func hasContent(e *Entry) bool { return e.Type == TypeFile || e.Type == TypeSymlink }

func (p *packer) content(e *Entry) error {
	dir, name, err := p.dirs.parent(e.Path)
	if err != nil {
		return err
	}
	if e.Type == TypeSymlink {
		target, err := readLink(dir, name)
		if err != nil {
			return err
		}
		if sha256.Sum256([]byte(target)) != e.SHA256 {
			return errFileChanged
		}
		_, err = p.out.WriteString(target)
		return err
	}
	fd, err := openBeneath(dir, name, openFile, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if st, err := fstat(fd); err != nil || typeOf(st.Mode) != TypeFile || st.Size != e.Size {
		return errors.Join(err, errFileChanged)
	}
	p.sum.Reset()
	for left := e.Size; left > 0; {
		n, err := read(fd, p.buf[:min(left, readBuffer)])
		if err == nil && n == 0 {
			err = errFileChanged
		}
		if err != nil {
			return err
		}
		p.sum.Write(p.buf[:n])
		if _, err := p.out.Write(p.buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	if [32]byte(p.sum.Sum(nil)) != e.SHA256 {
		return errFileChanged
	}
	return nil
}
