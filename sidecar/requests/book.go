package requests

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Bounds of one session's requests.
const (
	MaxRequests = 64
	MaxText     = 1 << 10 // bytes
	// Burst may be asked at once, and one more every Interval.
	Burst    = 8
	Interval = 2 * time.Second
)

// ErrTooMany says that there are as many requests as there may be, and
// ErrTooSoon that the next one has to wait.
var (
	ErrTooMany = fmt.Errorf("there are %d requests already", MaxRequests)
	ErrTooSoon = errors.New("too many requests at once; wait a little")
)

// Book is one session's requests. It is safe for concurrent use.
type Book struct {
	now func() time.Time

	mu      sync.Mutex
	all     []wire.Request
	byName  map[string]int
	tokens  int
	refresh time.Time
}

// NewBook returns an empty book.
func NewBook(now func() time.Time) *Book {
	return &Book{now: now, byName: map[string]int{}, tokens: Burst, refresh: now()}
}

// Ask enters a request, or changes the one about the same thing. fresh is false
// where it says nothing new.
func (b *Book) Ask(s wire.Subject, text string) (r wire.Request, fresh bool, err error) {
	if err := s.Check(); err != nil {
		return r, false, err
	}
	if len(text) > MaxText {
		return r, false, fmt.Errorf("the reason is longer than %d bytes", MaxText)
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.take() {
		return r, false, ErrTooSoon
	}
	name := s.Kind + " " + s.Name()
	i, known := b.byName[name]
	switch {
	case known && b.all[i].SHA256 == s.Digest():
		return b.all[i], false, nil
	case known:
		b.all[i].Subject, b.all[i].SHA256, b.all[i].Text, b.all[i].Asked = s, s.Digest(), text, b.now().UTC()
		return b.all[i], true, nil
	case len(b.all) == MaxRequests:
		return r, false, ErrTooMany
	}
	r = wire.Request{
		Schema: "proctor/request/v1", ID: fmt.Sprintf("r-%d", len(b.all)+1), Subject: s, SHA256: s.Digest(),
		Text: text, Asked: b.now().UTC(), State: wire.RequestWaiting,
	}
	b.byName[name] = len(b.all)
	b.all = append(b.all, r)
	return r, true, nil
}

// take spends a token. The caller holds the lock.
func (b *Book) take() bool {
	if more := int(b.now().Sub(b.refresh) / Interval); more > 0 {
		b.tokens = min(Burst, b.tokens+more)
		b.refresh = b.refresh.Add(time.Duration(more) * Interval)
	}
	if b.tokens == 0 {
		return false
	}
	b.tokens--
	return true
}

// Get returns a request by its id.
func (b *Book) Get(id string) (wire.Request, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.all {
		if r.ID == id {
			return r, true
		}
	}
	return wire.Request{}, false
}

// All returns every request, by number.
func (b *Book) All() []wire.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]wire.Request{}, b.all...)
}

// Answered is the request with what the ledger says of it. An answer to what
// was asked before the request changed is none.
func Answered(s *ledger.State, session string, r wire.Request) wire.Request {
	a, ok := s.Answer(session, r.ID)
	if !ok || a.SHA256 != r.SHA256 {
		r.State, r.Answer = wire.RequestWaiting, ""
		return r
	}
	r.State, r.Answer = wire.RequestDenied, a.Reason
	if a.Decision == ledger.Approved {
		r.State = wire.RequestApproved
	}
	return r
}

// RowKind is the kind of the record's rows that hold a wire.Request each.
const RowKind = "request"

// Latest is each request as the last of the rows has it, by number.
func Latest(rows []wire.Request) []wire.Request {
	var all []wire.Request
	at := map[string]int{}
	for _, r := range rows {
		if i, ok := at[r.ID]; ok {
			all[i] = r
			continue
		}
		at[r.ID] = len(all)
		all = append(all, r)
	}
	return all
}
