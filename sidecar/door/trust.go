package door

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/requests"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Desk decides what is asked through the door. It changes nothing that an
// approval could come from.
type Desk interface {
	// DecideFile judges the content that the agent has of an absolute path.
	DecideFile(path string, content []byte) wire.Decided
	// Ask enters a request; fresh is false where nothing is new.
	Ask(s wire.Subject, text string) (r wire.Request, fresh bool, err error)
	// Request is one request with its answer, as of now; Requests are all.
	Request(id string) (wire.Request, bool)
	Requests() []wire.Request
}

// Bounds of the questions about trust.
const (
	// MaxContent is the largest content that is decided here, in bytes.
	MaxContent = 1 << 20
	maxBodies  = 48 // contents that are being read at once
	maxAsk     = 16 << 10
	// MaxWait bounds how long the state of a request is waited for.
	MaxWait    = 50 * time.Second
	waitsEvery = 200 * time.Millisecond
)

type failure struct {
	Error string `json:"error"`
}

// refuse answers a question that cannot be answered.
func (d *Door) refuse(w http.ResponseWriter, status int, text string) {
	d.answer(w, "bad-question", status, failure{"proctor: " + text})
}

// decide answers POST /v1/trust/decide?path=P or ?path_base64=B with the content
// as its body: 200 for a yes, 403 for a no.
func (d *Door) decide(w http.ResponseWriter, r *http.Request) {
	path, err := pathOf(r)
	if err != nil {
		d.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	select {
	case d.bodies <- struct{}{}:
		defer func() { <-d.bodies }()
	default:
		d.refuse(w, http.StatusServiceUnavailable, "too many contents at once; try again")
		return
	}
	content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxContent))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		d.refuse(w, http.StatusRequestEntityTooLarge, "larger than 1 MiB: nothing is decided about it here; the audit judges it")
		return
	case err != nil:
		d.refuse(w, http.StatusBadRequest, "the content did not come whole")
		return
	}
	decided := d.cfg.Desk.DecideFile(path, content)
	status := http.StatusOK
	if !decided.Allowed {
		status = http.StatusForbidden
	}
	d.answer(w, "decided", status, decided)
}

func pathOf(r *http.Request) (string, error) {
	q := r.URL.Query()
	path := q.Get("path")
	if b := q.Get("path_base64"); b != "" {
		raw, err := base64.StdEncoding.DecodeString(b)
		if err != nil || path != "" {
			return "", errors.New("path_base64 is not base64, or path is there, too")
		}
		path = string(raw)
	}
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.Contains(path, "\x00") || len(path) > wire.MaxSubject {
		return "", errors.New("path is not absolute and clean")
	}
	return path, nil
}

// ask answers POST /v1/requests.
func (d *Door) ask(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAsk))
	if err != nil {
		d.refuse(w, http.StatusRequestEntityTooLarge, "the request is too large, or did not come whole")
		return
	}
	var ask wire.Ask
	if err := strictjson.Unmarshal(body, &ask, strictjson.Limits{Size: maxAsk}); err != nil || ask.Schema != "proctor/ask/v1" {
		d.refuse(w, http.StatusBadRequest, "not a request (proctor/ask/v1)")
		return
	}
	req, fresh, err := d.cfg.Desk.Ask(ask.Subject, ask.Text)
	switch {
	case errors.Is(err, requests.ErrTooSoon), errors.Is(err, requests.ErrTooMany):
		d.refuse(w, http.StatusTooManyRequests, err.Error())
		return
	case err != nil:
		d.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	kind := requests.RowKind
	if !fresh {
		kind = "request-repeated"
	}
	d.answer(w, kind, http.StatusOK, req)
}

// request answers GET /v1/requests/ID, and with ?wait=SECONDS once the request is
// answered, or then.
func (d *Door) request(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	req, ok := d.cfg.Desk.Request(id)
	if !ok {
		d.refuse(w, http.StatusNotFound, "no such request")
		return
	}
	if wait := waitOf(r); wait > 0 && req.State == wire.RequestWaiting {
		limit := time.NewTimer(wait)
		defer limit.Stop()
		tick := time.NewTicker(waitsEvery)
		defer tick.Stop()
		for over := false; !over && req.State == wire.RequestWaiting; {
			select {
			case <-tick.C:
				req, _ = d.cfg.Desk.Request(id)
			case <-limit.C:
				over = true
			case <-r.Context().Done():
				return
			}
		}
	}
	d.answerWith(w, "request-asked", struct {
		ID    string `json:"id"`
		State string `json:"state"`
	}{req.ID, req.State}, http.StatusOK, req)
}

func waitOf(r *http.Request) time.Duration {
	seconds, err := strconv.Atoi(r.URL.Query().Get("wait"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, MaxWait)
}

// requests answers GET /v1/requests.
func (d *Door) requests(w http.ResponseWriter, _ *http.Request) {
	d.answerWith(w, "requests-asked", struct{}{}, http.StatusOK, struct {
		Schema   string         `json:"schema"`
		Requests []wire.Request `json:"requests"`
	}{"proctor/requests/v1", d.cfg.Desk.Requests()})
}
