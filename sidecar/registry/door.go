package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/packages"
)

// Name is the door's.
const Name = "npm"

// Registry is where packages come from; *packages.Client is one.
type Registry interface {
	Registry() string // its origin, in the spelling of identities
	Document(ctx context.Context, name string) (*packages.Document, error)
}

// Config is what the door works with.
type Config struct {
	Registry Registry
	// Address is where the agent finds this door, without a slash at its end.
	Address string
	// Transport fetches archives.
	Transport http.RoundTripper
	Cache     *Cache
	// Decide judges one identity as the operator's records stand now.
	Decide func(packages.Identity) packages.Decision
	// Named returns what the records hold of a package: the identities that were
	// approved at some time. An error refuses.
	Named func(name string) ([]packages.Identity, error)
	// ByName is the policy's word on a package's name alone.
	Rules packages.Rules
	// Row writes one row of the record; an error is a refusal.
	Row func(kind string, data any) error
	// Refused writes the row of a refusal and tells the operator.
	Refused func(door.Refusal) error
	// Done is told how each request ended: allowed, refused or failed; nil is nobody.
	Done func(outcome string, took time.Duration, out, in int64)
}

// Door is the door.
type Door struct {
	cfg    Config
	origin string
	prefix string // path of the registry's address
	ask    *asker
	http   *http.Client
	room   chan struct{} // of documents that are being answered

	mu       sync.Mutex
	versions map[packages.Identity]version // read from archives
}

const (
	maxConnections = 1280
	idleTimeout    = 5 * time.Minute
	fetchTimeout   = 10 * time.Minute
	maxBody        = 4 << 20
	maxURL         = 4 << 10
	// documentsAtOnce bounds how many documents are made and held until the client
	// has them, and documentTimeout how long one may stand still meanwhile.
	documentsAtOnce = 16
	documentTimeout = 30 * time.Second
	// maxRemembered bounds how many archives' own words are kept in memory.
	maxRemembered = 10_000
)

// New makes a door. It listens nowhere yet.
func New(cfg Config) (*Door, error) {
	if cfg.Registry == nil || cfg.Cache == nil || cfg.Decide == nil || cfg.Named == nil || cfg.Rules == nil || cfg.Row == nil || cfg.Refused == nil {
		return nil, errors.New("registry: registry, cache, decide, named, rules, row and refused are needed")
	}
	if cfg.Done == nil {
		cfg.Done = func(string, time.Duration, int64, int64) {}
	}
	origin := cfg.Registry.Registry()
	u, err := url.Parse(origin)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	return &Door{
		cfg: cfg, origin: origin, prefix: u.Path, ask: newAsker(cfg.Registry), versions: map[packages.Identity]version{},
		room: make(chan struct{}, documentsAtOnce),
		http: &http.Client{
			Transport: cfg.Transport, Timeout: fetchTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Serve answers on the listener until ctx ends.
func (d *Door) Serve(ctx context.Context, l net.Listener) error {
	err := door.Run(ctx, l, d, door.Bounds{Connections: maxConnections, Header: 64 << 10, HeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute})
	if err != nil {
		return fmt.Errorf("npm: %w", err)
	}
	return nil
}

// answer is how a request ended.
type answer struct {
	outcome string
	bytes   int64
}

// ServeHTTP answers one request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	end := answer{outcome: "failed"}
	defer func() { d.cfg.Done(end.outcome, time.Since(began), 0, end.bytes) }()
	a, err := parsePath(r.URL.Path, d.prefix)
	idle := idleTimeout
	if a.kind == document || a.kind == manifest {
		idle = documentTimeout
	}
	w, r = door.Rolling(w, r, idle)
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if len(r.RequestURI) > maxURL {
		fail(w, http.StatusRequestURITooLong, "the address is too long")
		return
	}
	switch {
	case err != nil:
		fail(w, http.StatusNotFound, "the path "+err.Error())
	case a.kind == special:
		end.outcome = d.special(w, r, a.rest)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		end.outcome = d.refuse(w, door.Refusal{What: r.Method + " " + a.name, Reason: "nothing is published through this door"})
	case a.kind == tarball:
		end = d.tarball(w, r, a)
	default:
		end = d.document(w, r, a)
	}
}

// fail answers what is no refusal, in the field that npm prints.
func fail(w http.ResponseWriter, status int, why string) {
	text := "proctor: " + why
	door.Fail(w, status, text, door.Answer{Error: text})
}

// refuse records and answers a refusal.
func (d *Door) refuse(w http.ResponseWriter, r door.Refusal) string {
	r.Door = Name
	if r.Remedy == nil {
		r.Remedy = []string{}
	}
	if r.Ask == nil {
		r.Ask = []string{}
	}
	if err := d.cfg.Refused(r); err != nil {
		fail(w, http.StatusServiceUnavailable, "the supervisor cannot record this, so it does not answer it")
		return "failed"
	}
	door.Refuse(w, http.StatusForbidden, r)
	return "refused"
}

// refusal is why an identity is not given out.
func refusal(id packages.Identity, dec packages.Decision) door.Refusal {
	r := door.Refusal{What: id.Spec(), Reason: dec.Reason.Words(), Remedy: packages.RemedyFor(dec, id.Spec()).Command}
	switch {
	case dec.Reason == packages.NotApproved:
		r.Ask = []string{"proctor-agent", "request", "package", id.Spec()}
	case dec.Err != nil:
		r.Reason += ": " + dec.Err.Error()
	}
	return r
}

// record writes a row; without it there is no answer.
func (d *Door) record(w http.ResponseWriter, kind string, data any) bool {
	if err := d.cfg.Row(kind, data); err != nil {
		fail(w, http.StatusServiceUnavailable, "the supervisor cannot record this, so it does not answer it")
		return false
	}
	return true
}
