package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/strictjson"
)

const (
	headSchema = "proctor/ledger-head/v1"
	// HeadType is the payload type of the head's envelope.
	HeadType = "application/vnd.proctor.ledger-head.v1+json"

	// MaxLine is the longest act in bytes, MaxSize the largest ledger.
	MaxLine = 64 << 10
	MaxSize = 512 << 20
	maxHead = 64 << 10
)

// head is what is signed.
type head struct {
	Schema  string     `json:"schema"`
	Control string     `json:"control_id"`
	Epoch   keys.Epoch `json:"epoch"` // that signed
	Count   uint64     `json:"count"` // acts
	Size    int64      `json:"size"`  // bytes of their lines
	Hash    string     `json:"hash"`  // chain hash
	Dropped string     `json:"dropped"`
}

// BrokenError says where a ledger is not what its head signs.
type BrokenError struct {
	Seq    uint64 // the first act that is not right; 0 where it is the head
	Reason string
}

func (e *BrokenError) Error() string {
	if e.Seq == 0 {
		return "ledger head: " + e.Reason
	}
	return fmt.Sprintf("ledger, act %d: %s", e.Seq, e.Reason)
}

// links is the chain up to some act.
type links struct {
	count   uint64
	size    int64
	hash    [32]byte
	dropped [32]byte
}

func start(control string) links {
	return links{hash: sha256.Sum256([]byte("proctor/ledger/v1\x00" + control))}
}

// next is the chain with one more line, its LF not included.
func (l links) next(line []byte, digest [32]byte) links {
	l.count++
	l.size += int64(len(line)) + 1
	var b [64]byte
	copy(b[:32], l.hash[:])
	copy(b[32:], digest[:])
	l.hash = sha256.Sum256(b[:])
	return l
}

func (l links) drop(digest [32]byte) links {
	b := append([]byte(nil), l.dropped[:]...)
	b = binary.BigEndian.AppendUint64(b, l.count)
	l.dropped = sha256.Sum256(append(b, digest[:]...))
	return l
}

// matches compares with what a head signs.
func (l links) matches(h head) bool {
	return l.count == h.Count && l.size == h.Size && hex.EncodeToString(l.hash[:]) == h.Hash && hex.EncodeToString(l.dropped[:]) == h.Dropped
}

func (l links) head(control string, e keys.Epoch) head {
	return head{
		Schema: headSchema, Control: control, Epoch: e, Count: l.count, Size: l.size,
		Hash: hex.EncodeToString(l.hash[:]), Dropped: hex.EncodeToString(l.dropped[:]),
	}
}

// links is the chain at the head.
func (h head) links() links {
	return links{count: h.Count, size: h.Size, hash: fromHex(h.Hash), dropped: fromHex(h.Dropped)}
}

func parseHead(env []byte, trust Trust) (head, error) {
	payload, err := trust.Verifier.Verify(env, HeadType)
	if err != nil {
		return head{}, fmt.Errorf("ledger head: %w", err)
	}
	var h head
	if err := strictjson.Unmarshal(payload, &h, strictjson.Limits{}); err != nil {
		return head{}, fmt.Errorf("ledger head: %w", err)
	}
	if h.Schema != headSchema || h.Count == 0 || h.Size <= 0 || h.Size > MaxSize || !isDigest(h.Hash) || !isDigest(h.Dropped) {
		return head{}, &BrokenError{Reason: "not whole"}
	}
	if h.Control != trust.ControlID {
		return head{}, &BrokenError{Reason: fmt.Sprintf("belongs to control %q, not %q", h.Control, trust.ControlID)}
	}
	return h, nil
}

type droppedLine struct {
	Seq     uint64 `json:"seq"`
	Dropped string `json:"dropped"`
}

// scanner goes through lines and keeps the chain.
type scanner struct {
	reader *strictjson.Reader
	at     links
}

func newScanner(at links) *scanner {
	return &scanner{reader: strictjson.New(strictjson.Limits{Depth: 6, Size: MaxLine}), at: at}
}

// line reads the next line. The entry is nil where it was dropped.
func (s *scanner) line(line []byte) (*Entry, error) {
	seq := s.at.count + 1
	broken := func(format string, a ...any) error {
		return &BrokenError{Seq: seq, Reason: fmt.Sprintf(format, a...)}
	}
	if d, ok := s.asDropped(line); ok {
		if d.Seq != seq || !isDigest(d.Dropped) {
			return nil, broken("a dropped act in its place, numbered %d", d.Seq)
		}
		digest := fromHex(d.Dropped)
		s.at = s.at.next(line, digest).drop(digest)
		return nil, nil
	}
	var e Entry
	if err := s.reader.Unmarshal(line, &e); err != nil {
		return nil, broken("%v", err)
	}
	if e.Seq != seq {
		return nil, broken("act %d in its place", e.Seq)
	}
	if e.Prev != hex.EncodeToString(s.at.hash[:]) {
		return nil, broken("it does not follow act %d", seq-1)
	}
	if err := e.validate(); err != nil {
		return nil, broken("%v", err)
	}
	s.at = s.at.next(line, sha256.Sum256(line))
	return &e, nil
}

func (s *scanner) asDropped(line []byte) (droppedLine, bool) {
	var d droppedLine
	if !bytes.Contains(line, []byte(`"dropped":`)) {
		return d, false
	}
	return d, s.reader.Unmarshal(line, &d) == nil
}

// marshalLine is the line of an act, without its LF.
func marshalLine(e Entry) ([]byte, error) {
	b, err := strictjson.Marshal(e)
	if err != nil {
		return nil, err
	}
	if len(b) > MaxLine {
		return nil, errors.New("act is too long")
	}
	return b, nil
}

func marshalHead(h head) ([]byte, error) { return strictjson.Marshal(h) }

// fromHex is the digest that isDigest accepted.
func fromHex(s string) (d [32]byte) {
	if b, err := hex.DecodeString(s); err == nil && len(b) == len(d) {
		copy(d[:], b)
	}
	return d
}

func hexOf(h [32]byte) string { return hex.EncodeToString(h[:]) }

func digestOf(line []byte) [32]byte { return sha256.Sum256(line) }
