package door

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/proctor-project/proctor/keys/strictjson"
)

// Bounds of one door.
const (
	// MaxConnections is how many are open at once; for a further one, the oldest
	// that is not being answered is closed.
	MaxConnections = 1024
	maxHeader      = 16 << 10
	headerTimeout  = 5 * time.Second
	bodyTimeout    = 30 * time.Second
	idleTimeout    = 60 * time.Second
)

// Session is what a client is told of itself.
type Session struct {
	Session string `json:"session"`
	Role    string `json:"role"`
	Step    string `json:"step"`
	Product string `json:"product"`
}

// Config is one role's door.
type Config struct {
	Session Session
	// Record writes one row and returns when it may be answered; an error is a
	// refusal.
	Record func(kind string, data any) error
	// Connected and Lost are told of the lifeline, once each.
	Connected func()
	Lost      func()
	// Desk decides about trust.
	Desk Desk
	// Line is the lifeline of a session without a launcher; nil is none.
	Line *Line
}

// Door answers one role.
type Door struct {
	cfg    Config
	once   sync.Once // the lifeline is taken once
	stop   chan struct{}
	bodies chan struct{} // contents that are being read
}

// New makes a door. It listens nowhere yet.
func New(cfg Config) (*Door, error) {
	if cfg.Record == nil || cfg.Connected == nil || cfg.Lost == nil || cfg.Desk == nil {
		return nil, errors.New("door: record, connected, lost and desk are needed")
	}
	return &Door{cfg: cfg, stop: make(chan struct{}), bodies: make(chan struct{}, maxBodies)}, nil
}

// Serve answers on the listener until ctx ends, and then closes every
// connection.
func (d *Door) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/session", d.session)
	mux.HandleFunc("GET /v1/lifeline", d.lifeline)
	if d.cfg.Line != nil {
		mux.Handle("POST /v1/lifeline", d.cfg.Line)
	}
	mux.HandleFunc("POST /v1/trust/decide", d.decide)
	mux.HandleFunc("POST /v1/requests", d.ask)
	mux.HandleFunc("GET /v1/requests", d.requests)
	mux.HandleFunc("GET /v1/requests/{id}", d.request)
	mux.HandleFunc("/", d.unknown)
	err := Run(ctx, l, mux, Bounds{
		Connections: MaxConnections, Header: maxHeader, HeaderTimeout: headerTimeout, BodyTimeout: bodyTimeout, IdleTimeout: idleTimeout,
		Stop: func() { close(d.stop) },
	})
	if err != nil {
		return fmt.Errorf("door: %w", err)
	}
	return nil
}

func (d *Door) session(w http.ResponseWriter, _ *http.Request) {
	d.answer(w, "session-asked", http.StatusOK, d.cfg.Session)
}

func (d *Door) unknown(w http.ResponseWriter, r *http.Request) {
	d.answer(w, "unknown-question", http.StatusNotFound, failure{"proctor: no such question: " + r.Method + " " + r.URL.Path})
}

// answer records what it answers.
func (d *Door) answer(w http.ResponseWriter, kind string, status int, v any) {
	body, err := strictjson.Marshal(v)
	d.send(w, kind, json.RawMessage(body), status, body, err)
}

// answerWith records a row of its own.
func (d *Door) answerWith(w http.ResponseWriter, kind string, row any, status int, v any) {
	body, err := strictjson.Marshal(v)
	d.send(w, kind, row, status, body, err)
}

// send records the row first. A record that takes no more rows is a refusal.
func (d *Door) send(w http.ResponseWriter, kind string, row any, status int, body []byte, err error) {
	if err == nil {
		err = d.cfg.Record(kind, row)
	}
	if err != nil {
		http.Error(w, `{"error":"proctor: the supervisor cannot record this, so it does not answer it"}`, http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// lifeline is held open by the agent's first process for as long as it lives.
// It connects before the payload exists, so that the first one is the true one;
// later ones are refused.
func (d *Door) lifeline(w http.ResponseWriter, r *http.Request) {
	first := false
	d.once.Do(func() { first = true })
	if !first {
		d.answer(w, "second-lifeline", http.StatusConflict, map[string]string{"error": "proctor: the lifeline is taken"})
		return
	}
	rc := http.NewResponseController(w)
	// No deadline: it lives as long as the agent.
	if err := errors.Join(rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{})); err != nil {
		http.Error(w, "no lifeline", http.StatusInternalServerError)
		return
	}
	if err := d.cfg.Record("agent-connected", struct{}{}); err != nil {
		http.Error(w, "no record", http.StatusServiceUnavailable)
		return
	}
	d.cfg.Connected()
	w.WriteHeader(http.StatusOK)
	_ = rc.Flush()
	select {
	case <-r.Context().Done():
		d.cfg.Lost()
	case <-d.stop:
	}
}
