package main

import (
	"context"
	"fmt"
	"time"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// explainPackage decides as the supervisor would, over what the ledger has now.
func (a *app) explainPackage(ctx context.Context, engine, text string, command []string) error {
	pol, origin, err := a.packagePolicy()
	if err != nil {
		return err
	}
	reply, err := a.askPackages(ctx, engine, wire.PackagesRequest{Act: "list"})
	if err != nil {
		return err
	}
	q := packages.Question{Spec: text, Use: packages.Fetch}
	if len(command) > 0 {
		q.Use, q.Argv = packages.Run, command
	}
	c, err := packages.NewClient(packages.Config{Registry: origin})
	if err != nil {
		return packageError(err)
	}
	q.Identity, q.Err = c.Resolve(ctx, text)
	records := listedPackages{reply.Records, time.Now()}
	d := packages.Decide(q, pol, records)
	spec := text
	e := explanation{Kind: "package", Subject: text, Allowed: d.Allowed, Reason: d.Reason.Words(), Rule: packageRule(d)}
	if q.Err == nil {
		spec = q.Identity.Spec()
		e.Identity = spec + " " + q.Identity.Integrity + " from " + q.Identity.Registry
		e.Detail = records.about(q.Identity)
	} else if d.Err != nil {
		e.Detail = d.Err.Error()
	}
	r := packages.RemedyFor(d, spec)
	if e.Remedy = r.Advice; len(r.Command) > 0 {
		e.Remedy = a.pasteable(display.Command(r.Command...))
	}
	a.printExplanation(e)
	return nil
}

// packageRule names the step of the order that decided, as docs/trust-packages.md
// numbers them.
func packageRule(d packages.Decision) string {
	switch d.Reason {
	case packages.DeniedByPolicy:
		return fmt.Sprintf("1, packages.deny of the policy: %q", d.Rule)
	case packages.NoIdentity:
		return "2, no exact identity"
	case packages.NotPinned:
		return "3, the command"
	case packages.DeniedByRecord:
		return "4, a recorded denial"
	case packages.ApprovedRecord:
		return "5, a recorded approval"
	case packages.AllowedByPolicy:
		return fmt.Sprintf("6, packages.allow of the policy: %q", d.Rule)
	case packages.NotApproved:
		return "7, nothing approves it"
	}
	return "what cannot be decided is refused"
}

// listedPackages are the operator's decisions at one moment, as they are listed.
type listedPackages struct {
	records []wire.PackageRecord
	now     time.Time
}

// Denied implements packages.Records.
func (l listedPackages) Denied(registry, name, version string) (bool, error) {
	for _, r := range l.records {
		if r.Registry == registry && r.Name == name && (r.Version == version || r.Version == "") && r.Decision == "denied" {
			return true, nil
		}
	}
	return false, nil
}

// Approved implements packages.Records.
func (l listedPackages) Approved(id packages.Identity) (bool, error) {
	for _, r := range l.records {
		if r.Registry == id.Registry && r.Name == id.Name && r.Version == id.Version && r.Decision == "approved" {
			return r.Integrity == id.Integrity && (r.Expires == nil || l.now.Before(*r.Expires)), nil
		}
	}
	return false, nil
}

// about says what is recorded of the package.
func (l listedPackages) about(id packages.Identity) string {
	for _, r := range l.records {
		if r.Name != id.Name || r.Registry != id.Registry || r.Version != id.Version && r.Version != "" {
			continue
		}
		text := fmt.Sprintf("%s on %s by %s", r.Decision, r.Recorded.UTC().Format(time.DateOnly), r.By)
		switch {
		case r.Decision == "approved" && r.Integrity != id.Integrity:
			text += ", with other bytes: " + r.Integrity
		case r.Expires != nil && !l.now.Before(*r.Expires):
			text += ", expired on " + r.Expires.UTC().Format(time.DateOnly)
		case r.Note != "":
			text += ": " + r.Note
		}
		return text
	}
	return ""
}
