package product

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A stream is a sequence of frames: 1 byte of kind, 4 bytes of big-endian
// length, the payload. The first frame is the header, the last one the end.
const (
	frameHeader = 'H'
	frameEntry  = 'E'
	frameFact   = 'F'
	frameBlob   = 'B'
	frameEnd    = 'Z'

	streamMagic = "proctor tree stream v1\n"

	// MaxFrame is the longest payload of a frame, in bytes.
	MaxFrame = 4 << 20
)

// Sink takes what a walk finds, in order. An error ends the walk.
type Sink interface {
	Entry(Entry) error
	Fact(Fact) error
}

// Encoder writes a stream. It is a Sink. It does not serve two goroutines.
type Encoder struct {
	w      *bufio.Writer
	acc    *accumulator
	buf    []byte
	err    error
	closed bool
}

// NewEncoder returns an Encoder that writes to w, beginning with the header.
func NewEncoder(w io.Writer) *Encoder {
	e := &Encoder{w: bufio.NewWriterSize(w, 256<<10), acc: newAccumulator()}
	e.frame(frameHeader, []byte(streamMagic))
	return e
}

func (e *Encoder) frame(kind byte, payload []byte) {
	if e.err != nil {
		return
	}
	if len(payload) > MaxFrame {
		e.err = fmt.Errorf("write stream: frame of %d bytes", len(payload))
		return
	}
	var head [5]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	if _, err := e.w.Write(head[:]); err != nil {
		e.err = fmt.Errorf("write stream: %w", err)
		return
	}
	if _, err := e.w.Write(payload); err != nil {
		e.err = fmt.Errorf("write stream: %w", err)
	}
}

// Entry writes an entry. Entries come in the byte order of their paths.
func (e *Encoder) Entry(entry Entry) error {
	if e.closed {
		return errDone
	}
	if err := e.acc.entry(&entry); err != nil {
		return fmt.Errorf("write stream: %w", err)
	}
	e.buf = appendEntry(e.buf[:0], &entry)
	e.frame(frameEntry, e.buf)
	return e.err
}

// Fact writes a fact.
func (e *Encoder) Fact(fact Fact) error {
	if e.closed {
		return errDone
	}
	e.buf = appendFact(e.buf[:0], &fact)
	if err := e.acc.fact(&fact, e.buf); err != nil {
		return fmt.Errorf("write stream: fact %q of %q: %w", fact.Kind, fact.Path, err)
	}
	e.frame(frameFact, e.buf)
	return e.err
}

// Blob writes an excerpt of the content of the last entry, at most MaxFrame
// bytes.
func (e *Encoder) Blob(b []byte) error {
	if e.closed {
		return errDone
	}
	e.frame(frameBlob, b)
	return e.err
}

// Close writes the end frame and flushes. It does not close the writer. A
// stream without its end frame is refused by every reader.
func (e *Encoder) Close() (Summary, error) {
	if e.closed {
		return Summary{}, errDone
	}
	e.closed = true
	sum := e.acc.summary()
	e.frame(frameEnd, sum.encode())
	if e.err == nil {
		if err := e.w.Flush(); err != nil {
			e.err = fmt.Errorf("write stream: %w", err)
		}
	}
	return sum, e.err
}

// ErrStream is the error of every stream that is cut short, out of order, over
// a limit or otherwise not exactly what an Encoder writes.
var ErrStream = errors.New("tree stream is not well formed")

// StreamLimits bounds a stream. Zero fields take the defaults.
type StreamLimits struct {
	Entries int64 // default 4,000,000
	Facts   int64 // default 1,000,000
	Bytes   int64 // of the whole stream; default 4 GiB
}

func (l StreamLimits) withDefaults() StreamLimits {
	if l.Entries == 0 {
		l.Entries = 4_000_000
	}
	if l.Facts == 0 {
		l.Facts = 1_000_000
	}
	if l.Bytes == 0 {
		l.Bytes = 4 << 30
	}
	return l
}

// Decoder reads a stream strictly.
type Decoder struct {
	r       *bufio.Reader
	limits  StreamLimits
	acc     *accumulator
	buf     []byte
	read    int64
	started bool
	ended   bool
	err     error
	sum     Summary
}

// NewDecoder returns a Decoder that reads from r. The zero limits are the
// defaults.
func NewDecoder(r io.Reader, limits StreamLimits) *Decoder {
	return &Decoder{r: bufio.NewReaderSize(r, 256<<10), limits: limits.withDefaults(), acc: newAccumulator()}
}

// Item is one frame of a stream: exactly one field is not nil. Blob is valid
// until the next call of Next.
type Item struct {
	Entry *Entry
	Fact  *Fact
	Blob  []byte
}

// Next returns the next item, or io.EOF after a well formed end. Anything else
// is an error that wraps ErrStream, and stays.
func (d *Decoder) Next() (Item, error) {
	if d.err != nil {
		return Item{}, d.err
	}
	if d.ended {
		return Item{}, io.EOF
	}
	item, err := d.next()
	if err != nil {
		d.err = fmt.Errorf("%w: %w", ErrStream, err)
		return Item{}, d.err
	}
	if d.ended {
		return Item{}, io.EOF
	}
	return item, nil
}

func (d *Decoder) next() (Item, error) {
	kind, payload, err := d.frame()
	if err != nil {
		return Item{}, err
	}
	if !d.started {
		if kind != frameHeader || string(payload) != streamMagic {
			return Item{}, errors.New("header missing")
		}
		d.started = true
		return d.next()
	}
	switch kind {
	case frameEntry:
		return d.entry(payload)
	case frameFact:
		return d.fact(payload)
	case frameBlob:
		return Item{Blob: payload}, nil
	case frameEnd:
		return Item{}, d.end(payload)
	}
	return Item{}, fmt.Errorf("frame of unknown kind %#x", kind)
}

func (d *Decoder) frame() (byte, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(d.r, head[:]); err != nil {
		return 0, nil, cutShort(err)
	}
	n := int64(binary.BigEndian.Uint32(head[1:]))
	d.read += 5 + n
	if n > MaxFrame || d.read > d.limits.Bytes {
		return 0, nil, fmt.Errorf("frame of %d bytes is over the limit", n)
	}
	if int64(cap(d.buf)) < n {
		d.buf = make([]byte, n)
	}
	d.buf = d.buf[:n]
	if _, err := io.ReadFull(d.r, d.buf); err != nil {
		return 0, nil, cutShort(err)
	}
	return head[0], d.buf, nil
}

func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (d *Decoder) entry(payload []byte) (Item, error) {
	e, err := parseEntry(payload)
	if err != nil {
		return Item{}, fmt.Errorf("entry: %w", err)
	}
	if err := d.acc.entry(&e); err != nil {
		return Item{}, err
	}
	if d.acc.sum.Entries > d.limits.Entries {
		return Item{}, errors.New("too many entries")
	}
	return Item{Entry: &e}, nil
}

func (d *Decoder) fact(payload []byte) (Item, error) {
	f, err := parseFact(payload)
	if err != nil {
		return Item{}, fmt.Errorf("fact: %w", err)
	}
	if err := d.acc.fact(&f, payload); err != nil {
		return Item{}, err
	}
	if d.acc.sum.Facts > d.limits.Facts {
		return Item{}, errors.New("too many facts")
	}
	return Item{Fact: &f}, nil
}

func (d *Decoder) end(payload []byte) error {
	d.sum = d.acc.summary()
	if !sameSummary(payload, &d.sum) {
		return errors.New("the end does not agree with what came before it")
	}
	if _, err := d.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("bytes after the end")
	}
	d.ended = true
	return nil
}

// Summary is the stream's own summary, computed from what was read. It is an
// error before Next has returned io.EOF.
func (d *Decoder) Summary() (Summary, error) {
	if !d.ended {
		return Summary{}, fmt.Errorf("%w: not read to its end", ErrStream)
	}
	return d.sum, nil
}
