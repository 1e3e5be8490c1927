package door

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Refusal is why something was not given: a row of the record, a line for the
// operator, and what the client is told.
type Refusal struct {
	Door   string   `json:"door"` // proxy, npm or services
	What   string   `json:"what"` // host and port, package and version, or service
	Reason string   `json:"reason"`
	Remedy []string `json:"remedy"` // the operator's command; empty where none can help
	Ask    []string `json:"ask"`    // the agent's command; empty where asking cannot help
}

// Text is one sentence with the remedy at its end.
func (r Refusal) Text() string {
	s := "proctor: " + wire.Refused{What: r.What, Reason: r.Reason}.Sentence()
	if len(r.Remedy) > 0 {
		s += ". The operator can run:  " + display.Command(r.Remedy...)
	}
	return s
}

// Answer is the JSON that a refused client gets.
type Answer struct {
	Error  string `json:"error"`
	Ask    string `json:"ask,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// Refuse answers with the refusal as JSON and as the reason phrase, which is
// all that some clients show, and closes the connection.
func Refuse(w http.ResponseWriter, status int, r Refusal) {
	a := Answer{Error: r.Text()}
	if len(r.Remedy) > 0 {
		a.Remedy = display.Command(r.Remedy...)
	}
	if len(r.Ask) > 0 {
		a.Ask = display.Command(r.Ask...)
	}
	Fail(w, status, r.Text(), a)
}

// maxPhrase is the longest reason phrase, in bytes.
const maxPhrase = 400

// lingering bounds how long a refused client may take to read its answer, and
// how much more it may send meanwhile.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 1 << 20
)

// Fail answers with a reason phrase of its own, which http.ResponseWriter has
// no way to write, and a document; it closes the connection.
func Fail(w http.ResponseWriter, status int, phrase string, document any) {
	body, err := strictjson.Marshal(document)
	if err != nil {
		body = []byte(`{"error":"proctor: internal"}`)
	}
	body = append(body, '\n')
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil { // the answer has begun, or cannot be taken over
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(body)
		return
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(lingerTime))
	_, err = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, reasonPhrase(phrase), len(body), body)
	if err != nil {
		return
	}
	// Closing with something unread resets the connection, and the client
	// might never see the answer.
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c, lingerBytes)
	}
}

// reasonPhrase is text that can stand in a status line.
func reasonPhrase(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), maxPhrase)]
}
