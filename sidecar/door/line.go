package door

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/proctor-project/proctor/keys/strictjson"
)

// maxEnding bounds the word on how a process ended, in bytes.
const maxEnding = 256 << 10

// Ending is how a process ended, in the words of the first process of its
// container.
type Ending struct {
	Outcome string   `json:"outcome"` // exited, signalled, timeout, start-failed
	Exit    int      `json:"exit"`
	Argv    []string `json:"argv"`
}

// Line is a lifeline that also takes the word on how a process ended, where no
// launcher sees that. Who holds it connected before the process existed; it is
// given out once.
type Line struct {
	// Early says that the process cannot have started yet: whoever asks is another
	// one, and the line stays free. nil is never.
	Early func() bool
	// Connected is told of its holder, Ended of the holder's one word, and Lost
	// of a holder that went away without it. An error is a refusal.
	Connected func() error
	Ended     func(Ending) error
	Lost      func()
	// Stop, when closed, has the holder end its process; it still says how that
	// ended. nil is never.
	Stop <-chan struct{}

	once sync.Once
}

// Words that a holder is told.
const (
	wordStop     = "stop\n"
	wordRecorded = "recorded\n"
)

// ServeHTTP holds the connection until its holder has spoken or is gone.
func (l *Line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	// The connection is this line's: nothing else comes over it.
	w.Header().Set("Connection", "close")
	// A refusal does not wait for the end of what it does not read.
	if err := rc.EnableFullDuplex(); err != nil {
		http.Error(w, `{"error":"proctor: no lifeline"}`, http.StatusInternalServerError)
		return
	}
	if l.Early != nil && l.Early() {
		http.Error(w, `{"error":"proctor: it is not this process's turn"}`, http.StatusTooEarly)
		return
	}
	first := false
	l.once.Do(func() { first = true })
	if !first {
		http.Error(w, `{"error":"proctor: the lifeline is taken"}`, http.StatusConflict)
		return
	}
	// No deadline: it lives as long as the process.
	err := errors.Join(rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{}), l.Connected())
	if err != nil {
		http.Error(w, `{"error":"proctor: no lifeline"}`, http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
	_ = rc.Flush()
	ended := l.relayStop(w, rc)
	ending, err := readEnding(r.Body)
	ended()
	if err != nil {
		l.Lost()
		return
	}
	if err := l.Ended(ending); err != nil {
		return // its holder sees the end without an answer
	}
	_, _ = io.WriteString(w, wordRecorded)
	_ = rc.Flush()
}

// relayStop tells the holder once that it is to stop, until what it returns is
// called; after that nothing of it writes any more.
func (l *Line) relayStop(w io.Writer, rc *http.ResponseController) (ended func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-l.Stop:
			_, _ = io.WriteString(w, wordStop)
			_ = rc.Flush()
		case <-over:
		}
	}()
	return func() { close(over); <-done }
}

func readEnding(r io.Reader) (Ending, error) {
	var e Ending
	line, err := bufio.NewReader(io.LimitReader(r, maxEnding)).ReadBytes('\n')
	if err != nil {
		return e, err
	}
	err = strictjson.Unmarshal(line[:len(line)-1], &e, strictjson.Limits{Size: maxEnding})
	return e, err
}
