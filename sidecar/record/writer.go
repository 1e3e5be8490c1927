package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
)

const (
	// FileName is the record in its directory.
	FileName = "record"
	// DefaultReserve is the space that a record has, in bytes.
	DefaultReserve = 16 << 20
	maxReserve     = 1 << 30
	// margin is what only the rows that end phases may use.
	margin = 64 << 10
	// syncEvery bounds how long a row is not durable.
	syncEvery = 100 * time.Millisecond
)

// Config is who writes.
type Config struct {
	Session string
	Step    string
	Key     keys.Secret
	// Reserve is the space for the whole record, in bytes; 0 is DefaultReserve.
	// Every step of a session uses the same.
	Reserve int64
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

func (c Config) complete() (Config, error) {
	if c.Reserve == 0 {
		c.Reserve = DefaultReserve
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Session == "" || !isName(c.Step) || len(c.Key.Reveal()) != keys.KeySize {
		return c, fmt.Errorf("record of session %q, step %q: name or key is missing", c.Session, c.Step)
	}
	if c.Reserve <= margin || c.Reserve > maxReserve {
		return c, fmt.Errorf("record of %d bytes: more than %d and at most %d are possible", c.Reserve, margin, maxReserve)
	}
	return c, nil
}

// file is what a Writer needs of *os.File.
type file interface {
	io.Writer
	io.Closer
	Fd() uintptr
}

// Writer appends rows. It is safe for concurrent use.
type Writer struct {
	config Config
	sync   func() error

	mu     sync.Mutex
	file   file
	size   int64
	head   Head
	dirty  bool
	broken error // the first failed write or sync; nothing is accepted after it
}

// Create makes the record of a session, with its space reserved. An existing
// one is an error that wraps fs.ErrExist.
func Create(dir string, rules safedir.Rules, c Config) (*Writer, error) {
	c, err := c.complete()
	if err != nil {
		return nil, fmt.Errorf("create record: %w", err)
	}
	d, err := safedir.Open(dir, rules)
	if err != nil {
		return nil, fmt.Errorf("create record: %w", err)
	}
	defer d.Close()
	f, err := d.OpenFile(FileName, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return nil, fmt.Errorf("create record: %w", err)
	}
	err = reserve(f, c.Reserve)
	if err = errors.Join(err, d.Sync()); err != nil {
		return nil, errors.Join(fmt.Errorf("create record: %w", err), f.Close(), d.Remove(FileName))
	}
	return newWriter(c, f, 0, Head{}), nil
}

// reserve takes the space now, so that a full disk later cannot silence the
// record. A file system that cannot is refused.
func reserve(f *os.File, size int64) error {
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size); err != nil {
		return fmt.Errorf("reserve %d bytes: %w", size, err)
	}
	return nil
}

func newWriter(c Config, f *os.File, size int64, head Head) *Writer {
	return &Writer{config: c, file: f, size: size, head: head, sync: func() error { return unix.Fdatasync(int(f.Fd())) }}
}

// OpenAppend goes on where another step ended. A torn last line is an error
// that wraps ErrTorn. If the known head is given, the record must end with it.
// What is there is not verified: its keys are others'.
func OpenAppend(dir string, rules safedir.Rules, c Config, known *Head) (*Writer, error) {
	c, f, content, err := openExisting(dir, rules, c)
	if err != nil {
		return nil, fmt.Errorf("open record: %w", err)
	}
	head, whole, err := lastLine(content)
	if err == nil && whole != len(content) {
		err = &BrokenError{Seq: head.Count + 1, Reason: "torn", torn: true}
	}
	if err == nil && known != nil && *known != head {
		err = &BrokenError{Seq: head.Count, Reason: fmt.Sprintf("the last row, but row %d is known as the last", known.Count)}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open record: %w", err), f.Close())
	}
	return newWriter(c, f, int64(len(content)), head), nil
}

func openExisting(dir string, rules safedir.Rules, c Config) (Config, *os.File, []byte, error) {
	c, err := c.complete()
	if err != nil {
		return c, nil, nil, err
	}
	d, err := safedir.Open(dir, rules)
	if err != nil {
		return c, nil, nil, err
	}
	defer d.Close()
	content, err := d.ReadFile(FileName, c.Reserve)
	if err != nil {
		return c, nil, nil, err
	}
	f, err := d.OpenFile(FileName, unix.O_WRONLY|unix.O_APPEND)
	return c, f, content, err
}

// lastLine returns the head by the last whole line, and where that line ends.
func lastLine(content []byte) (Head, int, error) {
	whole := bytes.LastIndexByte(content, '\n') + 1
	if whole == 0 {
		return Head{}, 0, nil
	}
	line := content[bytes.LastIndexByte(content[:whole-1], '\n')+1 : whole-1]
	payload, sum, ok := bytes.Cut(line, []byte("\t"))
	var row Row
	if err := strictjson.Unmarshal(payload, &row, strictjson.Limits{}); err != nil || !ok || len(sum) != lineRest-2 {
		return Head{}, 0, fmt.Errorf("the last line is no row: %w", err)
	}
	return Head{Count: row.Seq, MAC: string(sum)}, whole, nil
}

// Append writes a row. When it returns, the row is in the file; it is durable
// after the next sync. On an error there is no row, and what it is about must
// be refused.
func (w *Writer) Append(kind string, data any) (Head, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.append(kind, data, w.config.Reserve-margin)
}

// Phase writes the row that ends a phase, and makes all rows durable.
func (w *Writer) Phase(kind string, data any) (Head, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, err := w.append(kind, data, w.config.Reserve)
	if err != nil {
		return Head{}, err
	}
	if err := w.sync(); err != nil {
		w.broken = fmt.Errorf("sync record: %w", err)
		return Head{}, w.broken
	}
	w.dirty = false
	return h, nil
}

func (w *Writer) append(kind string, data any, limit int64) (Head, error) {
	if w.broken != nil {
		return Head{}, fmt.Errorf("append to record: broken before: %w", w.broken)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return Head{}, fmt.Errorf("append to record: %w", err)
	}
	next := Head{Count: w.head.Count + 1}
	payload, err := marshalRow(Row{Seq: next.Count, Time: w.config.Now().UTC(), Step: w.config.Step, Kind: kind, Data: raw})
	if err != nil {
		return Head{}, fmt.Errorf("append to record: %w", err)
	}
	if w.size+int64(len(payload)+lineRest) > limit {
		return Head{}, fmt.Errorf("append to record: %w", ErrFull)
	}
	if next.MAC, err = mac(w.config.Key, w.config.Session, next.Count, w.head.MAC, payload); err != nil {
		return Head{}, fmt.Errorf("append to record: %w", err)
	}
	line := fmt.Appendf(payload, "\t%s\n", next.MAC)
	if _, err := w.file.Write(line); err != nil {
		w.broken = err
		return Head{}, fmt.Errorf("append to record: %w", err)
	}
	w.size += int64(len(line))
	w.head, w.dirty = next, true
	return next, nil
}

// Head is the head now.
func (w *Writer) Head() Head {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.head
}

// Run makes rows durable at most 100 ms after they were written, until the
// context ends, and once more then. A failed sync ends it, and the record.
func (w *Writer) Run(ctx context.Context) error {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return w.flush()
		case <-tick.C:
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
}

// flush syncs without holding up those who append meanwhile.
func (w *Writer) flush() error {
	w.mu.Lock()
	if !w.dirty || w.broken != nil {
		defer w.mu.Unlock()
		return w.broken
	}
	w.dirty = false
	w.mu.Unlock()
	if err := w.sync(); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.broken = fmt.Errorf("sync record: %w", err)
		return w.broken
	}
	return nil
}

// Close makes all rows durable and closes the file. It is idempotent.
func (w *Writer) Close() error {
	err := w.flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err2 := w.file.Close(); err2 != nil && !errors.Is(err2, os.ErrClosed) {
		err = errors.Join(err, err2)
	}
	if w.broken == nil {
		w.broken = os.ErrClosed
	} else if errors.Is(w.broken, os.ErrClosed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("close record: %w", err)
	}
	return nil
}
