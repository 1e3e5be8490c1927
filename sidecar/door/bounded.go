package door

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
)

// bounded has at most `most` connections open. For a new one beyond that, the
// oldest that is not being answered is closed: a client that opens many, and
// asks nothing or half a question, holds up nobody.
type bounded struct {
	net.Listener
	most int

	mu   sync.Mutex
	room sync.Cond
	open *list.List // of *slotted, the oldest first
}

func newBounded(l net.Listener, most int) *bounded {
	b := &bounded{Listener: l, most: most, open: list.New()}
	b.room.L = &b.mu
	return b
}

func (b *bounded) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.open.Len() >= b.most && !b.evict() {
		b.room.Wait() // every one of them is being answered
	}
	s := &slotted{Conn: c, from: b}
	s.place = b.open.PushBack(s)
	return s, nil
}

// evict closes the oldest connection that is not being answered.
func (b *bounded) evict() bool {
	for e := b.open.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*slotted); !s.answering {
			b.drop(s)
			_ = s.Conn.Close()
			return true
		}
	}
	return false
}

func (b *bounded) drop(s *slotted) {
	if s.place != nil {
		b.open.Remove(s.place)
		s.place = nil
	}
}

// slotted is a connection that counts. Its fields belong to the listener's lock.
type slotted struct {
	net.Conn
	from      *bounded
	place     *list.Element // nil once it does not count any more
	answering bool
}

func (s *slotted) Close() error {
	s.from.mu.Lock()
	s.from.drop(s)
	s.from.room.Signal()
	s.from.mu.Unlock()
	return s.Conn.Close()
}

// CloseWrite passes the end on, where the connection can.
func (s *slotted) CloseWrite() error {
	half, ok := s.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

func (s *slotted) answer(now bool) {
	s.from.mu.Lock()
	defer s.from.mu.Unlock()
	s.answering = now
	s.from.room.Signal()
}

type connKey struct{}

// withConn lets a request find its connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// answering keeps the connections of the requests that h answers.
func answering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s, ok := r.Context().Value(connKey{}).(*slotted); ok {
			s.answer(true)
			defer s.answer(false)
		}
		h.ServeHTTP(w, r)
	})
}
