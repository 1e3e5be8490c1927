package steps

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/sidecar/egress"
	"github.com/proctor-project/proctor/sidecar/hosts"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/services"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// outsideDoor is one door to the outside.
type outsideDoor struct {
	socket string // its name in the sockets' part, or an absolute path
	serve  func(ctx context.Context, l net.Listener) error
}

// outside is what serve's doors to the outside are made of.
type outside struct {
	policy   *policy.Policy
	request  wire.ServeRequest
	resolver *egress.Resolver
	ledger   func() (*ledger.State, error)
	tally    *tally
	row      func(kind string, data any) error
	cache    string
}

// HasDoors reports whether a policy opens a door to the outside; who starts serve
// asks the same, and sends a ServeRequest then.
func HasDoors(p *policy.Policy) bool {
	return p.Egress.Door == policy.Opened || len(p.Services) > 0 || p.Packages.Registry != ""
}

// openDoors makes the doors that the session's own policy opens.
func (s *serving) openDoors(layout Layout, part *safedir.Dir, view func() (*ledger.State, error), in *bufio.Reader) ([]outsideDoor, error) {
	pol, err := sessionPolicy(part, s.session)
	if err != nil || !HasDoors(pol) {
		return nil, err
	}
	o := &outside{policy: pol, ledger: view, tally: s.tally, row: s.row, cache: layout.Cache}
	if err := request(in, &o.request); err != nil {
		return nil, err
	}
	if o.request.Schema != "proctor/serve/v1" {
		return nil, fmt.Errorf("schema %q", o.request.Schema)
	}
	o.resolver = egress.NewResolver(o.request.ResolvConf, o.request.Hosts)
	var all []outsideDoor
	for _, open := range []func() (*outsideDoor, error){o.proxy, o.services, o.npm} {
		d, err := open()
		if err != nil {
			return nil, err
		}
		if d != nil {
			all = append(all, *d)
		}
	}
	return all, nil
}

func (o *outside) proxy() (*outsideDoor, error) {
	if o.policy.Egress.Door != policy.Opened {
		return nil, nil
	}
	p, err := egress.New(egress.Config{
		Rules:   egress.Rules{Allow: o.policy.Egress.Allow, Deny: o.policy.Egress.Deny, Also: o.policy.Egress.Also, Acts: o.hostActs, Now: time.Now},
		Dialer:  egress.Dialer{Lookup: o.resolver.Lookup},
		Row:     o.row,
		Refused: o.tally.refused,
		Done:    o.tally.by(egress.Name),
	})
	if err != nil {
		return nil, err
	}
	return &outsideDoor{wire.ProxySocket, p.Serve}, nil
}

// services is the credentials' door. Every service of the policy needs its
// secret, and no other secret is taken.
func (o *outside) services() (*outsideDoor, error) {
	if len(o.policy.Services) == 0 {
		return nil, nil
	}
	secrets := map[string]keys.Secret{}
	for _, s := range o.request.Secrets {
		secrets[s.Service] = keys.NewSecret(s.Value)
	}
	var all []services.Service
	for _, s := range o.policy.Services {
		secret, ok := secrets[s.Name]
		if !ok {
			return nil, fmt.Errorf("service %s: no secret was handed over", s.Name)
		}
		all = append(all, services.Service{
			Name: s.Name, Base: s.Base, Place: services.Place(s.Auth.Kind), Field: s.Auth.Name, Prefix: s.Auth.Prefix,
			Methods: s.Methods, Paths: s.Paths, Secret: secret,
		})
	}
	if len(secrets) != len(all) {
		return nil, errors.New("a secret was handed over that no service needs")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(o.request.Roots)
	d, err := services.New(services.Config{
		Services: all, Roots: roots, Dialer: egress.Dialer{Lookup: o.resolver.Lookup}, Row: o.row, Refused: o.tally.refused,
		Done: o.tally.by(services.Name),
	})
	if err != nil {
		return nil, err
	}
	return &outsideDoor{wire.ServicesSocket, d.Serve}, nil
}

// hostActs are the operator's words on hosts as they stand now.
func (o *outside) hostActs() ([]egress.Act, error) {
	state, err := o.ledger()
	if err != nil {
		return nil, err
	}
	records := state.Hosts()
	acts := make([]egress.Act, 0, len(records))
	for _, r := range records {
		p, err := hosts.NewPattern(r.Host, r.Port)
		if err != nil {
			return nil, fmt.Errorf("host %q of the ledger: %w", r.Host, err)
		}
		a := egress.Act{Pattern: p, Denied: r.Decision != ledger.Approved}
		if r.Expires != nil {
			a.Expires = *r.Expires
		}
		acts = append(acts, a)
	}
	return acts, nil
}

// listenAt makes every door's socket before any is served.
func listenAt(dir string, doors []outsideDoor) ([]net.Listener, error) {
	var all []net.Listener
	for _, d := range doors {
		path := d.socket
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		l, err := listen(path)
		if err != nil {
			for _, open := range all {
				_ = open.Close()
			}
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}
