package steps

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Originals writes, for every path that a session changed, what the product has
// there now: one line (wire.Original), then that many bytes. It runs on the host
// as the product's owner and reads nothing of the stage.
func Originals(_ context.Context, dir, baseline, manifest *os.File, stdout io.Writer) error {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	out := bufio.NewWriterSize(stdout, 256<<10)
	base := newBaselineEntries(baseline)
	sealed := product.NewManifestReader(bufio.NewReaderSize(manifest, 256<<10))
	err = mergeEntries(base.next, sealed.Next, func(b, s *product.Entry) error {
		if b != nil && s != nil && *b == *s {
			return nil
		}
		return writeOriginal(out, root, b, s)
	})
	return errors.Join(err, out.Flush())
}

// baselineEntries gives the entries of a stream, without its facts.
type baselineEntries struct{ dec *product.Decoder }

func newBaselineEntries(r io.Reader) baselineEntries {
	return baselineEntries{product.NewDecoder(bufio.NewReaderSize(r, 256<<10), product.StreamLimits{})}
}

func (b baselineEntries) next() (product.Entry, error) {
	for {
		item, err := b.dec.Next()
		if err != nil {
			return product.Entry{}, err
		}
		if item.Entry != nil {
			return *item.Entry, nil
		}
	}
}

// mergeEntries walks two sorted lists at once.
func mergeEntries(a, b func() (product.Entry, error), do func(a, b *product.Entry) error) error {
	next := func(f func() (product.Entry, error)) (*product.Entry, error) {
		e, err := f()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return &e, nil
	}
	x, err := next(a)
	if err != nil {
		return err
	}
	y, err := next(b)
	if err != nil {
		return err
	}
	for x != nil || y != nil {
		left, right := x, y
		switch {
		case y == nil || x != nil && x.Path < y.Path:
			right = nil
		case x == nil || y.Path < x.Path:
			left = nil
		}
		if err := do(left, right); err != nil {
			return err
		}
		if left != nil {
			if x, err = next(a); err != nil {
				return err
			}
		}
		if right != nil {
			if y, err = next(b); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeOriginal(w io.Writer, root *os.Root, before, after *product.Entry) error {
	path := entryOf(before, after).Path
	o := wire.Original{Path: wire.NewPath(path)}
	var content []byte
	if before != nil {
		var err error
		if content, err = readSide(root, path, before.Type); err != nil {
			o.Unread = err.Error()
		}
		o.Before = &wire.Side{Type: string(before.Type), Mode: before.Mode, Bytes: len(content)}
	}
	if after != nil {
		o.After = &wire.Side{Type: string(after.Type), Mode: after.Mode}
	}
	if err := answer(w, o); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

func entryOf(a, b *product.Entry) *product.Entry {
	if a != nil {
		return a
	}
	return b
}

var errTooLarge = errors.New("too large to compare")

// readSide reads a regular file or a link's target; what is something else by
// now, or too large, is said.
func readSide(root *os.Root, path string, t product.Type) ([]byte, error) {
	switch t {
	case product.TypeSymlink:
		target, err := root.Readlink(path)
		return []byte(target), err
	case product.TypeFile:
	default:
		return nil, nil
	}
	f, err := root.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file any more")
	}
	if info.Size() > product.MaxDiff {
		return nil, errTooLarge
	}
	return io.ReadAll(io.LimitReader(f, product.MaxDiff))
}

// Diff runs in the reader: it compares what the product had, from standard
// input, with the stage, and writes a diff in git's form.
func Diff(_ context.Context, dir string, stdin io.Reader, stdout io.Writer) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	in := bufio.NewReaderSize(stdin, 256<<10)
	out := bufio.NewWriterSize(stdout, 256<<10)
	for {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return out.Flush()
		}
		var o wire.Original
		if err := request(in, &o); err != nil {
			return err
		}
		if err := diffOne(out, root, o, in); err != nil {
			return err
		}
	}
}

func diffOne(out io.Writer, root *os.Root, o wire.Original, in io.Reader) error {
	path := o.Path.Raw()
	var before, after *product.Side
	problem := o.Unread
	if o.Before != nil {
		if o.Before.Bytes < 0 || o.Before.Bytes > product.MaxDiff {
			return fmt.Errorf("original of %q has %d bytes", path, o.Before.Bytes)
		}
		content := make([]byte, o.Before.Bytes)
		if _, err := io.ReadFull(in, content); err != nil {
			return err
		}
		before = sideOf(path, o.Before, content)
	}
	if o.After != nil {
		content, err := readSide(root, path, product.Type(o.After.Type))
		if err != nil {
			problem = err.Error()
		}
		after = sideOf(path, o.After, content)
	}
	if problem != "" {
		_, err := fmt.Fprintf(out, "# %q: %s\n", path, problem)
		return err
	}
	return product.Diff(out, path, before, after)
}

func sideOf(path string, s *wire.Side, content []byte) *product.Side {
	return &product.Side{Content: content, Entry: product.Entry{
		Path: path, Type: product.Type(s.Type), Mode: s.Mode, Size: int64(len(content)), SHA256: sha256.Sum256(content),
	}}
}
