package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/proctor-project/proctor/sandbox"
	"github.com/proctor-project/proctor/sandbox/chain"
	"github.com/proctor-project/proctor/sandbox/kubernetes/pod"
)

// Names of what a namespace holds for everybody's sessions in it.
const (
	SecretRoot   = "proctor-root"   // the root key: open and seal
	SecretLedger = "proctor-ledger" // the ledger's keys: the operator's verbs
	SecretDoors  = "proctor-doors"  // what serve's doors need
	ClaimLedger  = "proctor-ledger"
)

// Name implements sandbox.Engine.
func (c *Client) Name() string { return Name }

// Close implements sandbox.Engine.
func (c *Client) Close() error { return nil }

// Probe implements sandbox.Engine.
func (c *Client) Probe(ctx context.Context, runtime string) (sandbox.Info, error) {
	if runtime != "" && runtime != "runc" {
		return sandbox.Info{}, &sandbox.UnavailableError{Engine: Name, Reason: fmt.Sprintf("runtime %q: a Pod has one for all of its containers", runtime), Remedy: "set the namespace's RuntimeClass"}
	}
	version, err := c.version(ctx)
	if err != nil {
		return sandbox.Info{}, err
	}
	return sandbox.Info{
		Engine: Name, EngineVersion: version, Runtime: "Pod of namespace", RuntimeVersion: c.namespace,
		RuntimeFloor: "unknown, as the API server does not say it", Seccomp: true, Cgroup: "unknown", LimitsMissing: []string{"pids"},
		Notes: []string{"a Pod's containers share its network", "exit statuses are reported from inside"},
	}, nil
}

// Resolve implements sandbox.Engine: the nodes know what a reference is, and the
// kubelet says later what it ran.
func (c *Client) Resolve(_ context.Context, img sandbox.Image) (sandbox.Image, error) {
	if img.Kind == sandbox.ImageSupervisor {
		return sandbox.Image{Kind: img.Kind, Ref: c.cfg.Image}, nil
	}
	if img.Kind != sandbox.ImageRef {
		return img, fmt.Errorf("an image of kind %s cannot be in a Pod: name one that the nodes find", img.Kind)
	}
	return img, nil
}

// Users implements sandbox.Engine: nothing of the host is in a Pod.
func (c *Client) Users(context.Context, string) ([]string, error) { return nil, nil }

// Part implements sandbox.Engine.
func (c *Client) Part(part sandbox.Part, _ string) sandbox.Mount {
	return sandbox.Mount{Kind: sandbox.MountVolume, Source: string(part)}
}

// MakePart implements sandbox.Engine: who has the namespace makes its claim, init
// its Secrets, and a session's own part is its Pod's.
func (c *Client) MakePart(context.Context, sandbox.Part, string, sandbox.Identity) error { return nil }

// RemovePart implements sandbox.Engine.
func (c *Client) RemovePart(context.Context, sandbox.Part, string) error { return nil }

// HasPart implements sandbox.Engine.
func (c *Client) HasPart(context.Context, sandbox.Part, string) (bool, error) { return true, nil }

// Submit implements sandbox.Whole.
func (c *Client) Submit(ctx context.Context, session string, s chain.Session) (sandbox.Following, error) {
	if s.Launched == nil {
		return nil, errors.New("a session without a launcher is not followed")
	}
	cfg := pod.Config{
		Name: "proctor-" + session, Image: c.cfg.Image, Secret: SecretRoot, Doors: SecretDoors,
		Keep: pod.Keep{Ledger: ClaimLedger}, Labels: map[string]string{labelSession: session},
	}
	if slices.Contains(s.Waive, string(sandbox.WaiveSharedNetwork)) {
		cfg.Network = pod.SharedNetwork
	}
	made, err := pod.New(cfg, s)
	if err != nil {
		return nil, &sandbox.RefusedError{Container: "Pod of session " + session, Problems: []string{err.Error()}}
	}
	return c.create(ctx, made)
}
