package product

import (
	"bufio"
	"encoding/binary"
	"io"
)

// Single reads one stream off the front of a longer input: it answers io.EOF
// after the end frame and leaves what follows unread in r. It checks frame
// lengths only; the Decoder that reads from it checks the rest.
type Single struct {
	r     *bufio.Reader
	head  []byte // of the frame that begins, not yet handed on
	left  int64  // of the frame's payload
	last  bool
	ended bool
}

// NewSingle returns a Single over r.
func NewSingle(r *bufio.Reader) *Single { return &Single{r: r} }

func (s *Single) Read(p []byte) (int, error) {
	for len(s.head) == 0 && s.left == 0 {
		if s.last {
			s.ended = true
			return 0, io.EOF
		}
		head := make([]byte, 5)
		if _, err := io.ReadFull(s.r, head); err != nil {
			return 0, cutShort(err)
		}
		s.head, s.left, s.last = head, int64(binary.BigEndian.Uint32(head[1:])), head[0] == frameEnd
	}
	if len(s.head) > 0 {
		n := copy(p, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Ended reports whether the end frame has been handed on whole.
func (s *Single) Ended() bool { return s.ended }
