package services

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/hosts"
)

// Place says where a service wants its secret.
type Place string

// The places.
const (
	Header Place = "header"
	Query  Place = "query"
	Basic  Place = "basic"
)

// Service is one API of the policy, with its secret.
type Service struct {
	Name    string
	Base    string // http or https, a host, and a path without a slash at its end
	Place   Place
	Field   string // the header, the query's field, or basic's user
	Prefix  string // before the secret, in a header
	Methods []string
	Paths   []string // prefixes, each begins and ends with a slash
	Secret  keys.Secret
}

// service is a Service that can be used.
type service struct {
	Service
	base   *url.URL
	target hosts.Target
	mask   mask
}

func newService(s Service) (*service, error) {
	u, err := url.Parse(s.Base)
	if err != nil {
		return nil, fmt.Errorf("service %s: its base is not a URL", s.Name)
	}
	address := u.Host
	if u.Port() == "" {
		address += map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	}
	t, err := hosts.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("service %s: its base %w", s.Name, err)
	}
	secret := string(s.Secret.Reveal())
	if len(secret) < 8 {
		return nil, fmt.Errorf("service %s: no secret", s.Name)
	}
	texts := []string{secret}
	if s.Place == Basic {
		texts = append(texts, s.Field+":"+secret)
	}
	return &service{Service: s, base: u, target: t, mask: newMask(texts...)}, nil
}

// allows judges a request's method and path; the path is after the service's
// name.
func (s *service) allows(method, rest string) error {
	if !slices.Contains(s.Methods, method) {
		return fmt.Errorf("method %s is not among those that the policy lists for it", method)
	}
	for _, p := range s.Paths {
		if strings.HasPrefix(rest, p) || rest+"/" == p {
			return nil
		}
	}
	return errors.New("the path is not below one that the policy lists for it")
}

// plainPath refuses a path that a server could read as another one than the
// prefixes were held against.
func plainPath(u *url.URL) error {
	p := u.Path
	trimmed := strings.TrimSuffix(p, "/")
	if trimmed == "" {
		trimmed = "/"
	}
	escaped := strings.ToLower(u.EscapedPath())
	switch {
	case !strings.HasPrefix(p, "/"), path.Clean(p) != trimmed:
		return errors.New("the path is not a clean one")
	case strings.Contains(escaped, "%2f"), strings.Contains(escaped, "%5c"), strings.Contains(escaped, "%2e"),
		strings.Contains(escaped, "%25"), strings.ContainsAny(p, "\\;\x00"):
		return errors.New("the path holds an escaped or odd separator")
	}
	return nil
}

// dropped are the headers of a client that are not passed on: credentials of
// its own, what concerns the way here, what would make an answer that cannot be
// searched, and what some servers take for another method or path than the ones
// that the policy was held against.
func dropped() []string {
	return []string{
		"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key",
		"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Accept-Encoding", "Range", "If-Range", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Via",
		"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Url", "X-Original-Uri", "X-Rewrite-Url",
		"X-Forwarded-Uri", "X-Forwarded-Method", "X-Forwarded-Path", "X-Forwarded-Prefix",
	}
}

// outgoing makes the request to the service, with the secret in it.
func (s *service) outgoing(r *http.Request, rest string) (*http.Request, error) {
	u := *s.base
	u.Path = s.base.Path + rest
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, errors.New("the query is not one")
	}
	u.RawQuery = r.URL.RawQuery
	secret := string(s.Secret.Reveal())
	if s.Place == Query {
		query.Del(s.Field)
		query.Set(s.Field, secret)
		u.RawQuery = query.Encode()
	}
	out := r.Clone(r.Context())
	out.URL, out.Host, out.RequestURI = &u, u.Host, ""
	for _, one := range strings.Split(r.Header.Get("Connection"), ",") {
		out.Header.Del(strings.TrimSpace(one))
	}
	for _, h := range dropped() {
		out.Header.Del(h)
	}
	for name := range out.Header {
		if strings.Contains(name, "_") {
			delete(out.Header, name) // many servers read X_Y as X-Y
		}
	}
	out.Trailer = nil
	out.Header.Set("Accept-Encoding", "identity")
	if _, ok := r.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // else the library adds its own
	}
	switch s.Place {
	case Header:
		out.Header.Set(s.Field, s.Prefix+secret)
	case Basic:
		out.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(s.Field+":"+secret)))
	}
	return out, nil
}
