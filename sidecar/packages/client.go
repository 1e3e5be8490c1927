package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// DefaultTimeout is how long one question to the registry may take in all, from
// the dial to the last byte.
const DefaultTimeout = 30 * time.Second

// accept asks for the abbreviated document: what installing needs, no more.
const accept = "application/vnd.npm.install-v1+json, application/json;q=0.5"

// Config says which registry is asked, and how.
type Config struct {
	Registry string // address; "" is no registry, and every question is refused
	// Timeout is the total deadline of one question; 0 means DefaultTimeout.
	Timeout time.Duration
	// MaxDocument is the largest document that is read, in bytes; 0 means
	// MaxDocument. Ranges need whole documents, and some packages' have more.
	MaxDocument int
	// Transport carries the requests; nil means one of its own that knows
	// nothing of proxies.
	Transport http.RoundTripper
}

// Client asks one registry about packages. It reads no environment variable and
// no file, starts no process, follows no redirect and sends no credentials.
type Client struct {
	registry string
	timeout  time.Duration
	max      int
	http     *http.Client
}

// NewClient returns a client for the registry.
func NewClient(c Config) (*Client, error) {
	if c.Registry == "" {
		return nil, refuse(NoRegistry, "", "")
	}
	origin, err := Origin(c.Registry)
	if err != nil {
		return nil, &Error{Reason: NoRegistry, Subject: c.Registry, Err: err}
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxDocument <= 0 {
		c.MaxDocument = MaxDocument
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: 20 * time.Second,
			IdleConnTimeout:       time.Minute,
			ForceAttemptHTTP2:     true,
			MaxConnsPerHost:       8,
		}
	}
	return &Client{registry: origin, timeout: c.Timeout, max: c.MaxDocument, http: &http.Client{
		Transport:     c.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Registry is the origin, in the spelling of identities.
func (c *Client) Registry() string { return c.registry }

// Resolve answers with the identity that the spec has in the registry now. A
// spec that is refused by its text is refused before anything is asked. Where
// the package's document is too large, the one of the version alone is asked for.
func (c *Client) Resolve(ctx context.Context, spec string) (Identity, error) {
	s, err := ParseSpec(spec)
	if err != nil {
		return Identity{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	d, err := c.Document(ctx, s.Name)
	if ReasonOf(err) == TooLarge {
		id, alone := c.alone(ctx, s)
		if alone == nil {
			return id, nil
		}
		return Identity{}, &Error{Reason: TooLarge, Subject: spec, Err: errors.Join(err, alone)}
	}
	if err != nil {
		return Identity{}, err
	}
	return d.Identity(s)
}

// alone asks for the document of one version.
func (c *Client) alone(ctx context.Context, s Spec) (Identity, error) {
	data, err := c.fetch(ctx, s.String(), documentURL(c.registry, s.Name)+"/"+s.Version+s.Tag)
	if err != nil {
		return Identity{}, err
	}
	return parseVersion(c.registry, s, data)
}

// Document fetches the registry's document about the package.
func (c *Client) Document(ctx context.Context, name string) (*Document, error) {
	if err := CheckName(name); err != nil {
		return nil, &Error{Reason: BadName, Subject: name, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	data, err := c.fetch(ctx, name, documentURL(c.registry, name))
	if err != nil {
		return nil, err
	}
	return parseDocument(c.registry, name, data, c.max)
}

// fetch gets one document; subject is for messages.
func (c *Client) fetch(ctx context.Context, subject, address string) ([]byte, error) {
	data, err := c.get(ctx, subject, address)
	if err != nil && ctx.Err() != nil {
		return nil, &Error{Reason: TimedOut, Subject: subject, Detail: "within " + c.timeout.String(), Err: ctx.Err()}
	}
	return data, err
}

func (c *Client) get(ctx context.Context, name, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, &Error{Reason: BadName, Subject: name, Err: err}
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "proctor")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &Error{Reason: Unreachable, Subject: name, Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, refuse(Redirected, name, resp.Status)
	case resp.StatusCode == http.StatusNotFound:
		return nil, refuse(Unknown, name, "")
	case resp.StatusCode != http.StatusOK:
		return nil, refuse(BadStatus, name, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, int64(c.max)+1))
	switch {
	case err != nil:
		return nil, &Error{Reason: Unreachable, Subject: name, Err: fmt.Errorf("read answer: %w", err)}
	case len(data) > c.max:
		return nil, refuse(TooLarge, name, fmt.Sprintf("the registry's document is over %d MiB", c.max>>20))
	}
	return data, nil
}
