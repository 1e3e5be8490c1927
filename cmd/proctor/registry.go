package main

import (
	"context"
	"fmt"

	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// registry is the operator's own registry, asked from the host: the supervisor's
// containers have no network.
func (a *app) registry() (*packages.Client, error) {
	h, err := a.home()
	if err != nil {
		return nil, err
	}
	path := a.policyPath(h)
	_, p, err := readPolicy(path)
	if err != nil {
		return nil, err
	}
	if p.Packages.Registry == "" {
		return nil, &hintError{fmt.Errorf("%s: packages.registry is missing", path), "set it to what this prints: npm config get registry"}
	}
	return packages.NewClient(packages.Config{Registry: p.Packages.Registry})
}

// requestedPackages is what a request's package is, exactly.
func (a *app) requestedPackages(ctx context.Context, spec string) ([]wire.Package, error) {
	c, err := a.registry()
	if err != nil {
		return nil, err
	}
	id, err := c.Resolve(ctx, spec)
	if err != nil {
		return nil, err
	}
	return []wire.Package{{Registry: id.Registry, Name: id.Name, Version: id.Version, Integrity: id.Integrity}}, nil
}
