package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/hosts"
)

// Name is the door's.
const Name = "proxy"

// Config is what the proxy decides with.
type Config struct {
	Rules  Rules
	Dialer Dialer
	// Row writes one row of the record; an error is a refusal.
	Row func(kind string, data any) error
	// Refused writes the row of a refusal and tells the operator.
	Refused func(door.Refusal) error
	// Done is told how each request ended: allowed, refused or failed; nil is nobody.
	Done   func(outcome string, took time.Duration, out, in int64)
	Limits Limits
}

// Limits of the proxy. Zero fields are the defaults.
type Limits struct {
	Connections int           // open at once; 1280
	Tunnels     int           // being answered at once; 1024
	Hello       time.Duration // from CONNECT's answer to the ClientHello; 10 s
	Idle        time.Duration // nothing moves; 5 m
	Total       time.Duration // one request or tunnel; 6 h
	Body        int64         // bytes of a plain HTTP request's body; 1 GiB
	URL         int           // bytes of a plain HTTP request's URL; 8 KiB
}

func (l *Limits) defaults() {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	long := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&l.Connections, 1280)
	set(&l.Tunnels, 1024)
	set(&l.URL, 8<<10)
	long(&l.Hello, 10*time.Second)
	long(&l.Idle, 5*time.Minute)
	long(&l.Total, 6*time.Hour)
	if l.Body == 0 {
		l.Body = 1 << 30
	}
}

// Proxy is the door.
type Proxy struct {
	cfg     Config
	forward http.Handler
	close   func()
	room    chan struct{}
}

// New makes a proxy. It listens nowhere yet.
func New(cfg Config) (*Proxy, error) {
	if cfg.Row == nil || cfg.Refused == nil || cfg.Rules.Acts == nil || cfg.Rules.Now == nil || cfg.Dialer.Lookup == nil {
		return nil, errors.New("egress: row, refused, rules and lookup are needed")
	}
	if cfg.Done == nil {
		cfg.Done = func(string, time.Duration, int64, int64) {}
	}
	cfg.Limits.defaults()
	p := &Proxy{cfg: cfg, room: make(chan struct{}, cfg.Limits.Tunnels)}
	p.forward, p.close = p.forwarder()
	return p, nil
}

// Serve answers on the listener until ctx ends.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	defer p.close()
	err := door.Run(ctx, l, p, door.Bounds{
		Connections: p.cfg.Limits.Connections, Header: 64 << 10, HeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), p.cfg.Limits.Total)
	defer cancel()
	r = r.WithContext(ctx)
	select {
	case p.room <- struct{}{}:
		defer func() { <-p.room }()
	default:
		fail(w, http.StatusServiceUnavailable, "too many connections are open; try again later")
		return
	}
	if r.Method == http.MethodConnect {
		p.connect(w, r)
		return
	}
	p.plain(w, r)
}

// fail answers what is no refusal.
func fail(w http.ResponseWriter, status int, why string) {
	text := "proctor: " + why
	door.Fail(w, status, text, door.Answer{Error: text})
}

// decide parses and judges what the agent asked for; a refusal is answered.
func (p *Proxy) decide(w http.ResponseWriter, asked string) (hosts.Target, bool) {
	t, err := hosts.Parse(asked)
	if err != nil {
		p.refuse(w, shorten(asked), Decision{Reason: err.Error()})
		return t, false
	}
	if d := p.cfg.Rules.Decide(t); !d.Allowed {
		p.refuse(w, t.String(), d)
		return t, false
	}
	return t, true
}

// shorten cuts what was not even a host.
func shorten(s string) string { return s[:min(len(s), 300)] }

func (p *Proxy) refuse(w http.ResponseWriter, what string, d Decision) {
	r := refusal(what, d)
	p.cfg.Done("refused", 0, 0, 0)
	if err := p.cfg.Refused(r); err != nil {
		fail(w, http.StatusServiceUnavailable, "the supervisor cannot record this, so it does not answer it")
		return
	}
	door.Refuse(w, http.StatusForbidden, r)
}

func refusal(what string, d Decision) door.Refusal {
	return door.Refusal{Door: Name, What: what, Reason: d.Reason, Remedy: d.Remedy, Ask: d.Ask}
}

// dial connects to an allowed target; a refusal or failure is answered.
func (p *Proxy) dial(w http.ResponseWriter, r *http.Request, t hosts.Target) (net.Conn, bool) {
	c, err := p.cfg.Dialer.Dial(r.Context(), t, func(a netip.Addr) Decision { return p.cfg.Rules.address(a, t.Port()) })
	var refused *RefusedError
	switch {
	case err == nil:
		return c, true
	case errors.As(err, &refused):
		p.refuse(w, t.String(), refused.Decision)
	default:
		p.failed(w, t, err)
	}
	return nil, false
}

type failedRow struct {
	Host  string `json:"host"`
	Port  int    `json:"port"`
	Error string `json:"error"`
}

func (p *Proxy) failed(w http.ResponseWriter, t hosts.Target, cause error) {
	p.cfg.Done("failed", 0, 0, 0)
	if err := p.cfg.Row("proxy-failed", failedRow{t.Host(), t.Port(), cause.Error()}); err != nil {
		fail(w, http.StatusServiceUnavailable, "the supervisor cannot record this, so it does not answer it")
		return
	}
	fail(w, http.StatusBadGateway, t.String()+": "+cause.Error())
}

// connect answers CONNECT: it dials, answers, and joins the two when the
// client's first bytes name the same host.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	t, ok := p.decide(w, r.RequestURI)
	if !ok {
		return
	}
	host, ok := p.dial(w, r, t)
	if !ok {
		return
	}
	defer func() { _ = host.Close() }()
	if err := p.cfg.Row("proxy-connect", connectRow{t.Host(), t.Port(), host.RemoteAddr().String()}); err != nil {
		fail(w, http.StatusServiceUnavailable, "the supervisor cannot record this, so it does not answer it")
		return
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = client.Close() }()
	stop := context.AfterFunc(r.Context(), func() { _ = client.Close() })
	defer stop()
	_ = client.SetDeadline(time.Now().Add(p.cfg.Limits.Hello))
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	name, taken, err := readHello(buffered.Reader)
	if why := misnamed(t, name, err); why != "" {
		if len(taken) > 0 { // a client that says nothing has been refused nothing
			_ = p.cfg.Refused(refusal(t.String(), Decision{Reason: why}))
			_, _ = client.Write(unrecognizedName())
		}
		p.cfg.Done("refused", time.Since(began), 0, 0)
		return
	}
	_ = client.SetDeadline(time.Time{})
	// What the buffered reader holds beyond the ClientHello was read already.
	rest := make([]byte, buffered.Reader.Buffered())
	_, _ = io.ReadFull(buffered.Reader, rest)
	_ = host.SetWriteDeadline(time.Now().Add(p.cfg.Limits.Idle))
	first, err := host.Write(append(taken, rest...))
	if err != nil {
		p.cfg.Done("failed", time.Since(began), 0, 0)
		return
	}
	out, in := tunnel(r.Context(), client, host, p.cfg.Limits.Idle)
	p.cfg.Done("allowed", time.Since(began), out+int64(first), in)
	_ = p.cfg.Row("proxy-closed", closedRow{t.Host(), t.Port(), out + int64(first), in})
}

type connectRow struct {
	Host    string `json:"host"`
	Port    int    `json:"port"`
	Address string `json:"address"`
}

type closedRow struct {
	Host string `json:"host"`
	Port int    `json:"port"`
	Out  int64  `json:"bytes_out"`
	In   int64  `json:"bytes_in"`
}

// misnamed says why a tunnel's first bytes are not for its target; "" is right.
// A client names no server when it asks for an address (RFC 6066, 3).
func misnamed(t hosts.Target, name string, err error) string {
	_, literal := t.Addr()
	switch {
	case err != nil:
		return "the tunnel does not begin with TLS"
	case literal && name == "":
		return ""
	case name == "":
		return "the TLS ClientHello names no server"
	}
	named, err := hosts.New(name, t.Port())
	if err != nil || named.Host() != t.Host() {
		return fmt.Sprintf("the TLS ClientHello names %q", shorten(name))
	}
	return ""
}
