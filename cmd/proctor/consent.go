package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"

	"github.com/proctor-project/proctor/sidecar/consent"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/trust"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// gate asks the engine's own ledger about what a product brings along.
func gate(e *engine) consent.Gate {
	return consent.Gate{Judge: func(ctx context.Context, path string, content []byte) (trust.Decision, error) {
		head, err := contentLine(wire.Content{Size: int64(len(content))})
		if err != nil {
			return trust.Decision{}, err
		}
		reply, err := e.launcher.Trust(ctx, wire.TrustRequest{
			Schema: "proctor/trust/v1", Act: "decide", By: hostUser(), Path: pathIn(path),
		}, io.MultiReader(head, bytes.NewReader(content)))
		if err != nil {
			return trust.Decision{}, err
		}
		return trust.Decision{Allowed: reply.Decision.Allowed, Reason: trust.Reason(reply.Decision.Reason)}, nil
	}}
}

// productPolicy is the policy that a product brings along, if the operator
// approved it. One that is there and does not count is said.
func (a *app) productPolicy(ctx context.Context, e *engine, product string) (data []byte, by *policy.Product, err error) {
	path := filepath.Join(product, policy.ProductFile)
	data, d := gate(e).ReadAndGate(ctx, path, consent.ProductPolicy)
	if d.Allowed {
		by, err = policy.ParseProduct(path, data)
		return data, by, err
	}
	if !d.Absent() {
		a.complain("warning: " + d.Text())
		if remedy := d.Remedy(); remedy != "" {
			a.complain("hint: " + a.pasteable(remedy))
		}
	}
	return nil, nil, nil
}
