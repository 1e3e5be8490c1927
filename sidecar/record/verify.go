package record

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
)

// Check is what a record is held against.
type Check struct {
	Session string
	// Key returns a step's key; a step that may not write is an error.
	Key func(step string) (keys.Secret, error)
	// Known is a head that was kept elsewhere: the record must contain it.
	Known *Head
}

// Verify reads a whole record. On an error the rows before it are returned with
// their head; they are what was written, but not all of it. The error is a
// *BrokenError with the first row that is not right, and wraps ErrTorn where
// that is the last line, cut.
func Verify(r io.Reader, c Check) ([]Row, Head, error) {
	in := bufio.NewReaderSize(io.LimitReader(r, maxReserve+1), MaxLine)
	reader := strictjson.New(strictjson.Limits{Size: MaxLine})
	var rows []Row
	var head Head
	known := c.Known == nil || c.Known.Count == 0
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil {
			return rows, head, lineError(head.Count+1, err)
		}
		row, next, err := verifyLine(reader, line[:len(line)-1], c, head)
		if err != nil {
			return rows, head, err
		}
		rows, head = append(rows, row), next
		if c.Known != nil && head.Count == c.Known.Count {
			if head.MAC != c.Known.MAC {
				return rows[:len(rows)-1], head, &BrokenError{Seq: head.Count, Reason: "not the row that the known head is about"}
			}
			known = true
		}
	}
	if !known {
		return rows, head, &BrokenError{Seq: head.Count + 1, Reason: fmt.Sprintf("missing: %d rows are known", c.Known.Count)}
	}
	return rows, head, nil
}

func lineError(seq uint64, err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return &BrokenError{Seq: seq, Reason: "torn", torn: true}
	case errors.Is(err, bufio.ErrBufferFull):
		return &BrokenError{Seq: seq, Reason: fmt.Sprintf("more than %d bytes", MaxLine)}
	}
	return fmt.Errorf("read record: %w", err)
}

func verifyLine(reader *strictjson.Reader, line []byte, c Check, before Head) (Row, Head, error) {
	seq := before.Count + 1
	fail := func(format string, a ...any) (Row, Head, error) {
		return Row{}, Head{}, &BrokenError{Seq: seq, Reason: fmt.Sprintf(format, a...)}
	}
	payload, sum, ok := bytes.Cut(line, []byte("\t"))
	if !ok {
		return fail("no MAC")
	}
	var row Row
	if err := reader.Unmarshal(payload, &row); err != nil {
		return fail("%v", err)
	}
	if row.Seq != seq {
		return fail("row %d in its place", row.Seq)
	}
	key, err := c.Key(row.Step)
	if err != nil {
		return fail("step %q: %v", row.Step, err)
	}
	want, err := mac(key, c.Session, seq, before.MAC, payload)
	if err != nil {
		return fail("%v", err)
	}
	if !hmac.Equal([]byte(want), sum) {
		return fail("its MAC is not right")
	}
	return row, Head{Count: seq, MAC: want}, nil
}

// VerifyDir is Verify for the record of a session's directory.
func VerifyDir(dir string, rules safedir.Rules, c Check) ([]Row, Head, error) {
	d, err := safedir.Open(dir, rules)
	if err != nil {
		return nil, Head{}, fmt.Errorf("verify record: %w", err)
	}
	defer d.Close()
	f, err := d.OpenFile(FileName, unix.O_RDONLY)
	if err != nil {
		return nil, Head{}, fmt.Errorf("verify record: %w", err)
	}
	defer f.Close()
	return Verify(f, c)
}
