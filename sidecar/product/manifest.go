package product

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
)

// A manifest is a tree's entries, one canonical JSON object a line, in the byte
// order of the paths. It is bound by the SHA-256 of its bytes.

// ManifestWriter writes a manifest. It is a Sink that drops facts.
type ManifestWriter struct {
	w   *bufio.Writer
	sum hash.Hash
	acc *accumulator
	buf []byte
}

// NewManifestWriter returns a ManifestWriter over w.
func NewManifestWriter(w io.Writer) *ManifestWriter {
	return &ManifestWriter{w: bufio.NewWriterSize(w, 64<<10), sum: sha256.New(), acc: newAccumulator()}
}

// Entry writes one line.
func (m *ManifestWriter) Entry(e Entry) error {
	if err := m.acc.entry(&e); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	m.buf = append(appendEntry(m.buf[:0], &e), '\n')
	m.sum.Write(m.buf)
	if _, err := m.w.Write(m.buf); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

// Fact does nothing: a manifest has no facts.
func (m *ManifestWriter) Fact(Fact) error { return nil }

// Close flushes and returns the digest of the manifest's bytes.
func (m *ManifestWriter) Close() (sha [32]byte, err error) {
	if err := m.w.Flush(); err != nil {
		return sha, fmt.Errorf("write manifest: %w", err)
	}
	m.sum.Sum(sha[:0])
	return sha, nil
}

// ErrManifest is the error of every manifest that is not exactly what a
// ManifestWriter writes.
var ErrManifest = errors.New("manifest is not well formed")

// ManifestReader reads a manifest strictly, with memory that does not grow with
// it.
type ManifestReader struct {
	r    *bufio.Reader
	acc  *accumulator
	sum  hash.Hash
	line int64
	err  error
}

// maxManifestLine holds MaxPath with every byte escaped, and the other fields.
const maxManifestLine = 6*MaxPath + 512

// NewManifestReader returns a ManifestReader over r.
func NewManifestReader(r io.Reader) *ManifestReader {
	return &ManifestReader{r: bufio.NewReaderSize(r, maxManifestLine), acc: newAccumulator(), sum: sha256.New()}
}

// Next returns the next entry, io.EOF at the end, or an error that wraps
// ErrManifest, or the underlying reader's error.
func (m *ManifestReader) Next() (Entry, error) {
	if m.err != nil {
		return Entry{}, m.err
	}
	e, err := m.next()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = fmt.Errorf("line %d: %w: %w", m.line, ErrManifest, err)
		}
		m.err = err
	}
	return e, err
}

func (m *ManifestReader) next() (Entry, error) {
	m.line++
	line, err := m.r.ReadSlice('\n')
	if errors.Is(err, io.EOF) && len(line) == 0 {
		return Entry{}, io.EOF
	}
	if err != nil {
		return Entry{}, cutShort(err)
	}
	m.sum.Write(line)
	e, err := parseEntry(line[:len(line)-1])
	if err != nil {
		return Entry{}, err
	}
	return e, m.acc.entry(&e)
}

// Digest is the SHA-256 of the lines that were read so far.
func (m *ManifestReader) Digest() (sha [32]byte) {
	m.sum.Sum(sha[:0])
	return sha
}

// Trees returns the tree and worktree digests of the entries that were read so
// far, in hex.
func (m *ManifestReader) Trees() (tree, worktree string) {
	s := m.acc.summary()
	return s.Tree, s.Worktree
}

// ManifestOf writes the entries of the stream in r to w and returns the
// manifest's digest and the stream's summary.
func ManifestOf(r io.Reader, w io.Writer, limits StreamLimits) (sha [32]byte, sum Summary, err error) {
	dec, out := NewDecoder(r, limits), NewManifestWriter(w)
	for {
		item, err := dec.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return sha, sum, fmt.Errorf("manifest of stream: %w", err)
		}
		if item.Entry == nil {
			continue
		}
		if err := out.Entry(*item.Entry); err != nil {
			return sha, sum, err
		}
	}
	if sum, err = dec.Summary(); err != nil {
		return sha, sum, err
	}
	sha, err = out.Close()
	return sha, sum, err
}
