package steps

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Read walks a product as hostile data and writes its stream.
func Read(ctx context.Context, dir string, limits product.Limits, stdout io.Writer) error {
	root, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	enc := product.NewEncoder(stdout)
	opts := product.WalkOptions{Limits: limits, Extractor: audit.NewExtractor()}
	if err := product.Walk(ctx, root, opts, enc); err != nil {
		return err
	}
	_, err = enc.Close()
	return err
}

// ReadDigest walks a product and writes its tree digest as one line.
func ReadDigest(ctx context.Context, dir string, limits product.Limits, stdout io.Writer) error {
	root, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	top := rootCounter{Encoder: product.NewEncoder(io.Discard)}
	if err := product.Walk(ctx, root, product.WalkOptions{Limits: limits}, &top); err != nil {
		return err
	}
	sum, err := top.Close()
	if err != nil {
		return err
	}
	if !sum.Complete {
		return fmt.Errorf("%s could not be read in full", dir)
	}
	return answer(stdout, wire.ReadDigest{
		Schema: "proctor/read-digest/v1", Tree: sum.Tree, Entries: sum.Entries, RootEntries: top.n,
	})
}

// rootCounter counts the entries of the product's own directory.
type rootCounter struct {
	*product.Encoder
	n int
}

func (c *rootCounter) Entry(e product.Entry) error {
	if inRoot(e.Path) {
		c.n++
	}
	return c.Encoder.Entry(e)
}

func inRoot(path string) bool { return path != "" && bytes.IndexByte([]byte(path), '/') < 0 }

// answer writes one line of JSON.
func answer(w io.Writer, v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// request reads one line of JSON and leaves the rest in the reader.
func request(r *bufio.Reader, v any) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > wire.MaxLine {
			return fmt.Errorf("read request: longer than %d bytes", wire.MaxLine)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		break
	}
	if err := strictjson.Unmarshal(line[:len(line)-1], v, strictjson.Limits{Size: wire.MaxLine}); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	return nil
}
