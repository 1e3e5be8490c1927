package services

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/egress"
	"github.com/proctor-project/proctor/sidecar/hosts"
)

// Name is the door's.
const Name = "services"

// Config is what the door works with.
type Config struct {
	Services []Service
	Dialer   egress.Dialer
	Roots    *x509.CertPool // nil is the machine's own
	// Row writes one row of the record; an error is a refusal.
	Row func(kind string, data any) error
	// Refused writes the row of a refusal and tells the operator.
	Refused func(door.Refusal) error
	// Done is told how each request ended: allowed, refused or failed; nil is nobody.
	Done func(outcome string, took time.Duration, out, in int64)
	// Idle bounds how long nothing may move, and how long a service may think
	// before it answers; 0 is 10 m. Body bounds a request's body; 0 is 4 GiB.
	Idle time.Duration
	Body int64
}

// Door is the door.
type Door struct {
	cfg       Config
	services  map[string]*service
	transport map[string]*http.Transport // one a service: no connection is shared
}

const (
	maxConnections = 1280
	maxTotal       = 6 * time.Hour
	maxURL         = 32 << 10
)

// New makes a door. It listens nowhere yet.
func New(cfg Config) (*Door, error) {
	if cfg.Row == nil || cfg.Refused == nil || cfg.Dialer.Lookup == nil {
		return nil, errors.New("services: row, refused and lookup are needed")
	}
	if cfg.Done == nil {
		cfg.Done = func(string, time.Duration, int64, int64) {}
	}
	if cfg.Idle == 0 {
		cfg.Idle = 10 * time.Minute
	}
	if cfg.Body == 0 {
		cfg.Body = 4 << 30
	}
	d := &Door{cfg: cfg, services: map[string]*service{}, transport: map[string]*http.Transport{}}
	for _, s := range cfg.Services {
		one, err := newService(s)
		if err != nil {
			return nil, err
		}
		d.services[s.Name], d.transport[s.Name] = one, d.newTransport(one)
	}
	return d, nil
}

// Serve answers on the listener until ctx ends.
func (d *Door) Serve(ctx context.Context, l net.Listener) error {
	defer func() {
		for _, t := range d.transport {
			t.CloseIdleConnections()
		}
	}()
	err := door.Run(ctx, l, d, door.Bounds{Connections: maxConnections, Header: 64 << 10, HeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute})
	if err != nil {
		return fmt.Errorf("services: %w", err)
	}
	return nil
}

func (d *Door) newTransport(s *service) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.cfg.Dialer.Dial(ctx, s.target, s.judge)
		},
		TLSClientConfig:        &tls.Config{RootCAs: d.cfg.Roots, ServerName: s.base.Hostname(), MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        time.Minute,
		ResponseHeaderTimeout:  d.cfg.Idle,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// judge holds what the base's name leads to against what is reserved. With TLS
// the host proves itself by its certificate, wherever it is; without, a name
// must not lead inside. An address in the policy is listed by that.
func (s *service) judge(a netip.Addr) egress.Decision {
	_, literal := s.target.Addr()
	if why := hosts.Reserved(a); why != "" && !literal && s.base.Scheme != "https" {
		return egress.Decision{Reason: fmt.Sprintf("leads to %s (%s); the policy must name the address, or https", a, why)}
	}
	return egress.Decision{Allowed: true}
}

// ServeHTTP answers one request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	rest = "/" + rest
	s, known := d.services[name]
	switch {
	case !known:
		d.refuse(w, name, "no such service in the policy")
		return
	case len(r.RequestURI) > maxURL || r.ContentLength > d.cfg.Body:
		fail(w, http.StatusRequestEntityTooLarge, "the request is too large")
		return
	}
	if err := plainPath(r.URL); err != nil {
		d.refuse(w, name, err.Error())
		return
	}
	if err := s.allows(r.Method, rest); err != nil {
		d.refuse(w, name+" "+r.Method+" "+rest, err.Error())
		return
	}
	if err := d.cfg.Row("services-request", requestRow{name, r.Method, shorten(s.mask.text(rest))}); err != nil {
		unrecorded(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxTotal)
	defer cancel()
	x := &exchange{door: d, service: s, began: began, outcome: "failed", watch: time.AfterFunc(d.cfg.Idle, cancel)}
	defer x.watch.Stop()
	defer func() { d.cfg.Done(x.outcome, time.Since(began), x.out.Load(), x.in) }()
	x.run(w, r.WithContext(ctx), rest)
}

type requestRow struct {
	Service string `json:"service"`
	Method  string `json:"method"`
	Path    string `json:"path"`
}

func shorten(s string) string { return s[:min(len(s), 300)] }

func (d *Door) refuse(w http.ResponseWriter, what, why string) {
	r := door.Refusal{Door: Name, What: shorten(what), Reason: why, Remedy: []string{}, Ask: []string{}}
	d.cfg.Done("refused", 0, 0, 0)
	if err := d.cfg.Refused(r); err != nil {
		unrecorded(w)
		return
	}
	door.Refuse(w, http.StatusForbidden, r)
}

func unrecorded(w http.ResponseWriter) {
	fail(w, http.StatusServiceUnavailable, "the supervisor cannot record this, so it does not answer it")
}

// fail answers what is no refusal.
func fail(w http.ResponseWriter, status int, why string) {
	text := "proctor: " + why
	door.Fail(w, status, text, door.Answer{Error: text})
}

// exchange is one request that is passed on.
type exchange struct {
	door    *Door
	service *service
	began   time.Time
	outcome string
	watch   *time.Timer // ends it when nothing moves
	out     atomic.Int64
	in      int64
}

func (x *exchange) run(w http.ResponseWriter, r *http.Request, rest string) {
	s, idle := x.service, x.door.cfg.Idle
	r.Body = http.MaxBytesReader(w, r.Body, x.door.cfg.Body)
	w, r = door.Rolling(w, r, idle)
	r.Body = &countedBody{ReadCloser: r.Body, x: x}
	req, err := s.outgoing(r, rest)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if r.ContentLength == 0 {
		req.Body = nil // an idempotent request may then be tried on another connection
	}
	resp, err := x.door.transport[s.Name].RoundTrip(req)
	if err != nil {
		x.failed(w, err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		x.failed(w, errors.New("the service answers compressed, which it was not asked for"))
		return
	}
	x.outcome = "allowed"
	x.head(w, resp)
	x.body(w, resp)
}

func (x *exchange) failed(w http.ResponseWriter, err error) {
	var refused *egress.RefusedError
	var tooLarge *http.MaxBytesError
	why := shorten(x.service.mask.text(err.Error()))
	switch {
	case errors.As(err, &refused):
		x.outcome = "refused"
		r := door.Refusal{Door: Name, What: x.service.Name, Reason: why, Remedy: []string{}, Ask: []string{}}
		if x.door.cfg.Refused(r) != nil {
			unrecorded(w)
			return
		}
		door.Refuse(w, http.StatusForbidden, r)
		return
	case errors.As(err, &tooLarge):
		fail(w, http.StatusRequestEntityTooLarge, "the body is too large")
		return
	}
	if x.door.cfg.Row("services-failed", failedRow{x.service.Name, why}) != nil {
		unrecorded(w)
		return
	}
	fail(w, http.StatusBadGateway, x.service.Name+": "+why)
}

type failedRow struct {
	Service string `json:"service"`
	Error   string `json:"error"`
}

// head passes the answer's status and headers on, without the secret and
// without what would be a credential itself.
func (x *exchange) head(w http.ResponseWriter, resp *http.Response) {
	h := w.Header()
	for name, values := range resp.Header {
		if hopByHop(name) {
			continue
		}
		for _, v := range values {
			h.Add(x.service.mask.text(name), x.service.mask.text(v))
		}
	}
	if l := resp.Header.Get("Location"); l != "" {
		h.Set("Location", x.service.mask.text(x.service.location(l)))
	}
	if _, ok := h["Date"]; !ok {
		h["Date"] = nil
	}
	w.WriteHeader(resp.StatusCode)
}

// hopByHop also names what sets a cookie, and what would tell the client to use
// TLS or another protocol on the way here.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Set-Cookie", "Set-Cookie2", "Alt-Svc", "Strict-Transport-Security":
		return true
	}
	return false
}

// location turns a redirect within the service into the door's own address. One
// to elsewhere stays: it is the client that would follow it, without the secret.
func (s *service) location(l string) string {
	u, err := s.base.Parse(l)
	if err != nil || u.Scheme != s.base.Scheme || u.Host != s.base.Host {
		return l
	}
	rest, ok := strings.CutPrefix(u.EscapedPath(), s.base.EscapedPath()+"/")
	if !ok {
		return l
	}
	to := "/" + s.Name + "/" + rest
	if u.RawQuery != "" {
		to += "?" + u.RawQuery
	}
	return to
}

// body passes the answer on as it comes.
func (x *exchange) body(w http.ResponseWriter, resp *http.Response) {
	rc := http.NewResponseController(w)
	from := x.service.mask.reader(&watched{resp.Body, x})
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			x.in += int64(n)
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
			_ = rc.Flush()
		}
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			x.outcome = "failed"
			panic(http.ErrAbortHandler) // the client must not take it for whole
		}
	}
}

type watched struct {
	io.Reader
	x *exchange
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.x.watch.Reset(b.x.door.cfg.Idle)
	return n, err
}

type countedBody struct {
	io.ReadCloser
	x *exchange
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.x.out.Add(int64(n))
	b.x.watch.Reset(b.x.door.cfg.Idle)
	return n, err
}
