package steps

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/proctor-project/proctor/sidecar/egress"
	"github.com/proctor-project/proctor/sidecar/hosts"
	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/registry"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// npm is the npm door, where the policy names a registry.
func (o *outside) npm() (*outsideDoor, error) {
	if o.policy.Packages.Registry == "" {
		return nil, nil
	}
	transport := o.toRegistry()
	client, err := packages.NewClient(packages.Config{Registry: o.policy.Packages.Registry, Transport: transport})
	if err != nil {
		return nil, err
	}
	cache, err := registry.OpenCache(o.cache, registry.MaxCache)
	if err != nil {
		return nil, err
	}
	d, err := registry.New(registry.Config{
		Registry: client, Address: fmt.Sprintf("http://127.0.0.1:%d", o.policy.Ports.NPM), Transport: transport, Cache: cache,
		Rules: o.policy, Decide: o.decidePackage, Named: o.named(client.Registry()), Row: o.row, Refused: o.tally.refused,
		Done: o.tally.by(registry.Name),
	})
	if err != nil {
		return nil, err
	}
	return &outsideDoor{wire.NPMSocket, d.Serve}, nil
}

// toRegistry reaches the registry's own host and no other. Where that is, is the
// operator's word: a registry may well be inside.
func (o *outside) toRegistry() *http.Transport {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(o.request.Roots)
	dialer := egress.Dialer{Lookup: o.resolver.Lookup}
	return &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			t, err := hosts.Parse(address)
			if err != nil {
				return nil, err
			}
			return dialer.Dial(ctx, t, egress.Anywhere)
		},
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 20 * time.Second,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
		MaxConnsPerHost:       8,
	}
}

// named returns what the records hold of a package of the registry.
func (o *outside) named(origin string) func(string) ([]packages.Identity, error) {
	return func(name string) ([]packages.Identity, error) {
		state, err := o.ledger()
		if err != nil {
			return nil, err
		}
		var all []packages.Identity
		for _, r := range state.PackageNamed(origin, name) {
			if r.Decision == ledger.Approved {
				all = append(all, packages.Identity{Registry: r.Registry, Name: r.Name, Version: r.Version, Integrity: r.Integrity})
			}
		}
		return all, nil
	}
}

// decidePackage judges an identity whose bytes are fetched; what runs them is
// not this door's to see.
func (o *outside) decidePackage(id packages.Identity) packages.Decision {
	state, err := o.ledger()
	if err != nil {
		return packages.Decision{Reason: packages.Broken, Err: err}
	}
	return packages.Decide(packages.Question{Spec: id.Spec(), Identity: id, Use: packages.Fetch}, o.policy, packageRecords{state, time.Now()})
}

// packageRecords are the operator's decisions at one moment.
type packageRecords struct {
	state *ledger.State
	now   time.Time
}

func (r packageRecords) Denied(registry, name, version string) (bool, error) {
	_, denied := r.state.PackageDenied(registry, name, version)
	return denied, nil
}

func (r packageRecords) Approved(id packages.Identity) (bool, error) {
	return r.state.PackageApproved(id.Registry, id.Name, id.Version, id.Integrity, r.now), nil
}
