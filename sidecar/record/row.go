package record

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/strictjson"
)

// Row is one thing that was decided or observed.
type Row struct {
	Seq  uint64          `json:"seq"` // from 1
	Time time.Time       `json:"time"`
	Step string          `json:"step"`
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// Head is a record's length and its last MAC: what to keep elsewhere, so that a
// cut end is noticed. The zero Head is that of an empty record.
type Head struct {
	Count uint64 `json:"count"`
	MAC   string `json:"mac"`
}

// MaxLine is the longest line, in bytes.
const MaxLine = 256 << 10

const (
	macDomain = "proctor/record/v1"
	maxName   = 64
	// lineRest is what a line has beside its payload: TAB, MAC, LF.
	lineRest = 1 + 2*sha256.Size + 1
)

var (
	// ErrTorn is wrapped when the last line is not whole.
	ErrTorn = errors.New("the last line is torn")
	// ErrFull is wrapped when the reserved space is used up.
	ErrFull = errors.New("the record's reserved space is used up")
)

// BrokenError says at which row a record is not what was written.
type BrokenError struct {
	Seq    uint64
	Reason string
	torn   bool
}

func (e *BrokenError) Error() string { return fmt.Sprintf("record, row %d: %s", e.Seq, e.Reason) }

// Is makes a torn line an ErrTorn.
func (e *BrokenError) Is(target error) bool { return e.torn && target == ErrTorn }

// mac computes the MAC of a row.
func mac(key keys.Secret, session string, seq uint64, before string, payload []byte) (string, error) {
	prev, err := hex.DecodeString(before)
	if err != nil {
		return "", fmt.Errorf("mac before: %w", err)
	}
	h := hmac.New(sha256.New, key.Reveal())
	number := binary.BigEndian.AppendUint64(nil, seq)
	for _, part := range [][]byte{[]byte(macDomain), []byte(session), number, prev, payload} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func marshalRow(r Row) ([]byte, error) {
	if !isName(r.Kind) || !isName(r.Step) {
		return nil, fmt.Errorf("row of step %q, kind %q: not a name", r.Step, r.Kind)
	}
	b, err := strictjson.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(b)+lineRest > MaxLine {
		return nil, fmt.Errorf("row of %d bytes, at most %d", len(b), MaxLine-lineRest)
	}
	return b, nil
}

func isName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
