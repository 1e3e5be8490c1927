package policy

import (
	"errors"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/proctor-project/proctor/sidecar/hosts"
)

// Door says whether a door is there at all. The zero value is the strict one.
type Door int

// The two states.
const (
	Closed Door = iota
	Opened
)

// String returns the policy's word.
func (d Door) String() string {
	if d == Opened {
		return "open"
	}
	return "closed"
}

// Egress is about hosts that the agent may reach through the proxy door.
type Egress struct {
	Door  Door
	Allow []hosts.Pattern
	Deny  []hosts.Pattern // before everything else
	Also  []hosts.Pattern // Allow counts only for what these match, too; empty is all
}

// Ports are the loopback ports in the agent's container that lead to the doors.
type Ports struct {
	Proxy    int
	NPM      int
	Services int
}

// Service is one API that the agent reaches through the supervisor, which adds
// the credentials.
type Service struct {
	Name    string // lower-case letters, digits and inner dashes, at most 32
	Base    string // http or https, a host, and a path at most, without a slash at its end
	Auth    Auth
	Secret  SecretRef
	Methods []string // in the file's order
	Paths   []string // prefixes, each begins and ends with a slash
}

// Auth says where a secret goes.
type Auth struct {
	Kind   AuthKind
	Name   string // of the header or of the query's field; for basic the user
	Prefix string // before the secret, header only
}

// AuthKind is one way to send a secret.
type AuthKind string

// The ways.
const (
	AuthHeader AuthKind = "header"
	AuthQuery  AuthKind = "query"
	AuthBasic  AuthKind = "basic"
)

// SecretRef names a secret on the host: exactly one field is set. The policy
// never holds the secret itself.
type SecretRef struct {
	File    string // absolute path
	Keyring string // name of a file in the operator's key ring
}

// Preset names a well-known API, whose base, auth and paths need not be written.
type Preset string

// The presets.
const (
	PresetOpenAI     Preset = "openai"
	PresetAnthropic  Preset = "anthropic"
	PresetGemini     Preset = "gemini"
	PresetMistral    Preset = "mistral"
	PresetOpenRouter Preset = "openrouter"
	PresetDeepSeek   Preset = "deepseek"
)

// preset returns what a preset stands for.
func preset(p Preset) Service {
	bearer := Auth{Kind: AuthHeader, Name: "Authorization", Prefix: "Bearer "}
	switch p {
	case PresetOpenAI:
		return Service{Base: "https://api.openai.com", Auth: bearer, Paths: []string{"/v1/"}}
	case PresetAnthropic:
		return Service{Base: "https://api.anthropic.com", Auth: Auth{Kind: AuthHeader, Name: "X-Api-Key"}, Paths: []string{"/v1/"}}
	case PresetGemini:
		return Service{
			Base: "https://generativelanguage.googleapis.com", Auth: Auth{Kind: AuthHeader, Name: "X-Goog-Api-Key"},
			Paths: []string{"/v1/", "/v1beta/"},
		}
	case PresetMistral:
		return Service{Base: "https://api.mistral.ai", Auth: bearer, Paths: []string{"/v1/"}}
	case PresetOpenRouter:
		return Service{Base: "https://openrouter.ai", Auth: bearer, Paths: []string{"/api/v1/"}}
	case PresetDeepSeek:
		return Service{Base: "https://api.deepseek.com", Auth: bearer, Paths: []string{"/"}}
	}
	return Service{}
}

func (r *reader) egress(e *Egress) decode {
	return func(n *yaml.Node, at string) {
		r.object(n, at,
			field{"door", optional, value(r, &e.Door, named(Closed, Opened))},
			field{"allow", optional, listOf(r, &e.Allow, 0, 1000, hosts.ParsePattern)},
			field{"deny", optional, listOf(r, &e.Deny, 0, 1000, hosts.ParsePattern)})
		if e.Door == Closed && len(e.Allow) > 0 {
			r.refuse(n, join(at, "allow"), "lists hosts, but the door is closed; write door: open")
		}
	}
}

func (r *reader) ports(p *Ports) decode {
	return func(n *yaml.Node, at string) {
		r.object(n, at,
			field{"proxy", optional, integer(r, &p.Proxy, 1024, 65535)},
			field{"npm", optional, integer(r, &p.NPM, 1024, 65535)},
			field{"services", optional, integer(r, &p.Services, 1024, 65535)})
		if p.Proxy == p.NPM || p.Proxy == p.Services || p.NPM == p.Services {
			r.refuse(n, at, "two doors have one port")
		}
	}
}

func (r *reader) services(dst *[]Service) decode {
	return func(n *yaml.Node, at string) {
		r.list(n, at, 0, 64, func(n *yaml.Node, at string) {
			s := r.service(n, at)
			if s.Name != "" && slices.ContainsFunc(*dst, func(have Service) bool { return have.Name == s.Name }) {
				r.refuse(n, join(at, "name"), "%q names another service too", s.Name)
			}
			*dst = append(*dst, s)
		})
	}
}

// service reads one service; what it does not say is its preset's.
func (r *reader) service(n *yaml.Node, at string) Service {
	var s Service
	var from Preset
	before := len(r.problems)
	r.object(n, at,
		field{"name", required, value(r, &s.Name, serviceName)},
		field{"preset", optional, value(r, &from, word(PresetOpenAI, PresetAnthropic, PresetGemini, PresetMistral, PresetOpenRouter, PresetDeepSeek))},
		field{"base", optional, value(r, &s.Base, serviceBase)},
		field{"auth", optional, r.auth(&s.Auth)},
		field{"secret", required, r.secret(&s.Secret)},
		field{"methods", optional, listOf(r, &s.Methods, 1, 9, word("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))},
		field{"paths", optional, listOf(r, &s.Paths, 1, 100, pathPrefix)})
	unique(r, n, join(at, "methods"), s.Methods)
	p := preset(from)
	if s.Base == "" {
		s.Base = p.Base
	}
	if s.Auth == (Auth{}) {
		s.Auth = p.Auth
	}
	if len(s.Paths) == 0 {
		s.Paths = p.Paths
	}
	if len(s.Paths) == 0 {
		s.Paths = []string{"/"}
	}
	if len(s.Methods) == 0 {
		s.Methods = []string{"GET", "POST"}
	}
	if len(r.problems) == before && (s.Base == "" || s.Auth == (Auth{})) {
		r.refuse(n, at, "base and auth are needed where there is no preset")
	}
	return s
}

func (r *reader) auth(a *Auth) decode {
	return func(n *yaml.Node, at string) {
		r.object(n, at,
			field{"kind", required, value(r, &a.Kind, word(AuthHeader, AuthQuery, AuthBasic))},
			field{"name", required, value(r, &a.Name, anyText)},
			field{"prefix", optional, value(r, &a.Prefix, headerPrefix)})
		switch {
		case a.Kind == AuthHeader && !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`).MatchString(a.Name):
			r.refuse(n, join(at, "name"), "%s is not a header's name", abbreviate(a.Name))
		case a.Kind == AuthHeader && slices.Contains(framing(), strings.ToLower(a.Name)):
			r.refuse(n, join(at, "name"), "%s says how a request is carried, and cannot hold a secret", abbreviate(a.Name))
		case a.Kind == AuthQuery && !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(a.Name):
			r.refuse(n, join(at, "name"), "%s is not a query's field", abbreviate(a.Name))
		case a.Kind == AuthBasic && !regexp.MustCompile(`^[!-9;-~]{1,256}$`).MatchString(a.Name):
			r.refuse(n, join(at, "name"), "%s is not a user's name", abbreviate(a.Name))
		case a.Kind != AuthHeader && a.Prefix != "":
			r.refuse(n, join(at, "prefix"), "has a meaning for kind header only")
		}
	}
}

// framing are the headers that would change how a request is read.
func framing() []string {
	return []string{
		"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect", "proxy-connection",
		"keep-alive", "content-type", "content-encoding", "accept-encoding",
	}
}

func (r *reader) secret(s *SecretRef) decode {
	return func(n *yaml.Node, at string) {
		r.object(n, at,
			field{"file", optional, value(r, &s.File, absolutePath)},
			field{"keyring", optional, value(r, &s.Keyring, serviceName)})
		if n.Kind == yaml.MappingNode && len(n.Content) != 2 {
			r.refuse(n, at, "needs exactly one of file and keyring")
		}
	}
}

func serviceName(s string) (string, error) {
	if _, err := checkName(s); err != nil {
		return "", errors.New("is not a name: lower-case letters, digits and inner dashes, at most 32")
	}
	return s, nil
}

// serviceBase takes the address that the agent's paths are appended to.
func serviceBase(s string) (string, error) {
	if _, err := origin(s); err != nil {
		return "", err
	}
	u, err := url.Parse(s)
	if err != nil {
		return "", errors.New("is not a URL")
	}
	if _, err := hosts.Parse(hostPort(u)); err != nil {
		return "", err
	}
	if u.Path != "" && (path.Clean(u.Path) != u.Path || u.Path == "/" || u.EscapedPath() != u.Path) {
		return "", errors.New("is not an address whose path is clean and ends without a slash")
	}
	return s, nil
}

// hostPort is a URL's host with its scheme's port, if it names none.
func hostPort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Host
	case u.Scheme == "http":
		return u.Host + ":80"
	}
	return u.Host + ":443"
}

func pathPrefix(s string) (string, error) {
	clean := path.Clean(s)
	if clean != "/" {
		clean += "/"
	}
	if !strings.HasPrefix(s, "/") || clean != s || strings.ContainsAny(s, "%\\?#") {
		return "", errors.New("is not a clean path that begins and ends with a slash")
	}
	return s, nil
}

func headerPrefix(s string) (string, error) {
	if !regexp.MustCompile(`^[!-~]{1,32} ?$`).MatchString(s) {
		return "", errors.New("is not what comes before a secret, such as \"Bearer \"")
	}
	return s, nil
}
