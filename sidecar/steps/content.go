package steps

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sidecar/wire"
)

// MaxContent is the largest file that can be approved, in bytes, and maxHead how
// much of one is kept to be shown.
const (
	MaxContent = 64 << 20
	maxHead    = 64 << 10
)

// WriteContent writes one file of a product, which path is relative to, as a
// Content and its bytes. It runs in the reader: nothing is followed out of the
// product, and only a regular file has bytes. Why there are none is part of the
// answer.
func WriteContent(_ context.Context, dir, path string, stdout io.Writer) error {
	f, size, err := openContent(dir, path)
	if err != nil {
		return answer(stdout, wire.Content{Schema: contentSchema, Error: err.Error()})
	}
	defer func() { _ = f.Close() }()
	if err := answer(stdout, wire.Content{Schema: contentSchema, Size: size}); err != nil {
		return err
	}
	_, err = io.CopyN(stdout, f, size)
	return err
}

const contentSchema = "proctor/content/v1"

// openContent opens a file of the product without following any link and without
// waiting for a FIFO.
func openContent(dir, path string) (*os.File, int64, error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("product: %w", err)
	}
	defer func() { _ = unix.Close(root) }()
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil, 0, errors.New("no such file")
	case errors.Is(err, unix.ELOOP):
		return nil, 0, errors.New("a link; only a regular file can be approved")
	case err != nil:
		return nil, 0, err
	}
	f := os.NewFile(uintptr(fd), filepath.Base(path))
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file; only one can be approved")
	}
	if err == nil && info.Size() > MaxContent {
		err = fmt.Errorf("larger than %d bytes", MaxContent)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// content is what is known of a file's bytes once they went by.
type content struct {
	sum  [sha256.Size]byte
	size int64
	head []byte // at most maxHead bytes
}

func contentOf(b []byte) content {
	return content{sum: sha256.Sum256(b), size: int64(len(b)), head: b[:min(len(b), maxHead)]}
}

func (c content) hex() string { return hex.EncodeToString(c.sum[:]) }

// readContent takes a Content and exactly its bytes, to the end of the input.
func readContent(in *bufio.Reader) (content, error) {
	var c content
	var what wire.Content
	if err := request(in, &what); err != nil {
		return c, &RefusedError{Err: errors.New("the content did not come")}
	}
	switch {
	case what.Schema != contentSchema:
		return c, &RefusedError{Err: fmt.Errorf("content: schema %q", what.Schema)}
	case what.Error != "":
		return c, &RefusedError{Err: errors.New(what.Error)}
	case what.Size < 0 || what.Size > MaxContent:
		return c, &RefusedError{Err: fmt.Errorf("content: %d bytes, at most %d", what.Size, MaxContent)}
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(hash, (*head)(&c.head)), io.LimitReader(in, what.Size+1))
	if err != nil {
		return c, err
	}
	if n != what.Size {
		return c, &RefusedError{Err: fmt.Errorf("content: announced with %d bytes, and has not as many", what.Size)}
	}
	c.size = n
	hash.Sum(c.sum[:0])
	return c, nil
}

// head keeps the beginning of what is written to it.
type head []byte

func (h *head) Write(p []byte) (int, error) {
	if room := maxHead - len(*h); room > 0 {
		*h = append(*h, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// insideOf is path relative to dir, if it is in there.
func insideOf(dir, path string) (string, bool) {
	rel, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/")
	return rel, ok && rel != ""
}
