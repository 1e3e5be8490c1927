package egress

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/hosts"
)

// plain answers a request whose line has a whole URL.
func (p *Proxy) plain(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	switch {
	case !r.URL.IsAbs() || r.URL.Host == "":
		fail(w, http.StatusBadRequest, "this is a proxy; a request's line needs a whole URL")
		return
	case r.URL.Scheme != "http":
		fail(w, http.StatusBadRequest, "for https a proxy is asked with CONNECT")
		return
	case r.URL.User != nil:
		fail(w, http.StatusBadRequest, "the URL holds credentials")
		return
	case len(r.RequestURI) > p.cfg.Limits.URL:
		fail(w, http.StatusRequestURITooLong, "the URL is too long")
		return
	case r.ContentLength > p.cfg.Limits.Body:
		fail(w, http.StatusRequestEntityTooLarge, "the body is too large")
		return
	}
	asked := r.URL.Host
	if r.URL.Port() == "" {
		asked += ":80"
	}
	t, ok := p.decide(w, asked)
	if !ok {
		return
	}
	if err := p.cfg.Row("proxy-request", requestRow{t.Host(), t.Port(), r.Method, shorten(r.URL.Path)}); err != nil {
		fail(w, http.StatusServiceUnavailable, "the supervisor cannot record this, so it does not answer it")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, p.cfg.Limits.Body)
	rw, again := door.Rolling(w, r, p.cfg.Limits.Idle)
	body, counted := &countedReader{ReadCloser: again.Body}, &countedWriter{ResponseWriter: rw}
	again.Body = body
	outcome := "allowed"
	defer func() { p.cfg.Done(outcome, time.Since(began), body.n.Load(), counted.n) }() // also when the client goes away
	p.forward.ServeHTTP(counted, again.WithContext(context.WithValue(again.Context(), askedKey{}, &asking{t, &outcome})))
}

type requestRow struct {
	Host   string `json:"host"`
	Port   int    `json:"port"`
	Method string `json:"method"`
	Path   string `json:"path"`
}

type askedKey struct{}

// asking is what the parts of the forwarder know of a request.
type asking struct {
	target  hosts.Target
	outcome *string
}

func askingOf(ctx context.Context) (*asking, bool) {
	a, ok := ctx.Value(askedKey{}).(*asking)
	return a, ok
}

// forwarder carries plain HTTP. It follows no redirect, and every connection is
// made by the dialer that checks addresses.
func (p *Proxy) forwarder() (http.Handler, func()) {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			t, err := hosts.Parse(address)
			if err != nil {
				return nil, err
			}
			return p.cfg.Dialer.Dial(ctx, t, func(a netip.Addr) Decision { return p.cfg.Rules.address(a, t.Port()) })
		},
		Proxy:                  nil,
		DisableCompression:     true,
		DisableKeepAlives:      true, // each request's address is judged anew
		ResponseHeaderTimeout:  p.cfg.Limits.Idle,
		MaxResponseHeaderBytes: 256 << 10,
	}
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			// The proxy adds no word of its own, and changes no protocol.
			r.Out.Header.Del("Upgrade")
			r.Out.Header.Del("Connection")
			if _, ok := r.In.Header["User-Agent"]; !ok {
				r.Out.Header["User-Agent"] = nil // else the library adds its own
			}
			r.Out.Host = r.In.URL.Host
		},
		FlushInterval: -1,
		ErrorHandler:  p.forwardFailed,
		ErrorLog:      log.New(io.Discard, "", 0),
	}, transport.CloseIdleConnections
}

func (p *Proxy) forwardFailed(w http.ResponseWriter, r *http.Request, err error) {
	a, ok := askingOf(r.Context())
	if !ok {
		return
	}
	var refused *RefusedError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &refused):
		*a.outcome = "refused"
		re := refusal(a.target.String(), refused.Decision)
		if p.cfg.Refused(re) != nil {
			fail(w, http.StatusServiceUnavailable, "the supervisor cannot record this, so it does not answer it")
			return
		}
		door.Refuse(w, http.StatusForbidden, re)
	case errors.As(err, &tooLarge):
		*a.outcome = "failed"
		fail(w, http.StatusRequestEntityTooLarge, "the body is too large")
	default:
		*a.outcome = "failed"
		_ = p.cfg.Row("proxy-failed", failedRow{a.target.Host(), a.target.Port(), err.Error()})
		fail(w, http.StatusBadGateway, a.target.String()+": "+err.Error())
	}
}

type countedReader struct {
	io.ReadCloser
	n atomic.Int64 // read by the transport, which may outlive the answer
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

type countedWriter struct {
	http.ResponseWriter
	n int64
}

func (c *countedWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *countedWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
