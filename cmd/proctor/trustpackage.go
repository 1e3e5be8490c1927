package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/policy"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// packageVerbs are the verbs of trust that are about packages.
func packageVerbs(a *app, engine *string) []*cobra.Command {
	return []*cobra.Command{
		newApprovePackageCommand(a, engine), newDenyPackageCommand(a, engine),
		newListPackagesCommand(a, engine), newRevokePackageCommand(a, engine),
	}
}

// packageRow is a decision about a package in --json.
type packageRow struct {
	Registry  string     `json:"registry"`
	Name      string     `json:"name"`
	Version   string     `json:"version"` // "" is every version
	Integrity string     `json:"integrity"`
	Decision  string     `json:"decision"`
	Now       string     `json:"now"` // holds, expired, stale
	Recorded  time.Time  `json:"recorded_at"`
	By        string     `json:"recorded_by"`
	Expires   *time.Time `json:"expires,omitempty"`
	Note      string     `json:"note"`
}

type packagesDocument struct {
	Schema  string       `json:"schema"` // "proctor/packages/v1"
	Done    string       `json:"done"`   // approved, denied, revoked, nothing; "" for a list
	Records []packageRow `json:"records"`
	// Same is how many packages were approved or denied so already.
	Same int `json:"same"`
}

func packageRowOf(r wire.PackageRecord, now time.Time) packageRow {
	row := packageRow{
		Registry: r.Registry, Name: r.Name, Version: r.Version, Integrity: r.Integrity, Decision: r.Decision, Now: "holds",
		Recorded: r.Recorded, By: r.By, Expires: r.Expires, Note: r.Note,
	}
	switch {
	case r.Stale != "":
		row.Now = "stale"
	case r.Expires != nil && !r.Expires.After(now):
		row.Now = "expired"
	}
	return row
}

// printPackages writes the one document of --json.
func (a *app) printPackages(done string, reply wire.PackagesReply) {
	doc := packagesDocument{Schema: "proctor/packages/v1", Done: done, Records: []packageRow{}, Same: reply.Same}
	for _, r := range reply.Records {
		doc.Records = append(doc.Records, packageRowOf(r, time.Now()))
	}
	a.printJSON(doc)
}

// packageName is how a person names what a record is about.
func packageName(r wire.Package) string {
	if r.Version == "" {
		return display.Escape(r.Name) + ", every version"
	}
	return display.Escape(r.Name + "@" + r.Version)
}

// askPackages opens the ledger for one question or act about packages.
func (a *app) askPackages(ctx context.Context, engine string, req wire.PackagesRequest) (wire.PackagesReply, error) {
	t, err := a.openTrust(ctx, engine, "")
	if err != nil {
		return wire.PackagesReply{}, err
	}
	defer func() { _ = t.close() }()
	req.User = hostUser()
	return t.launcher.Packages(ctx, req)
}

// packagePolicy is the operator's policy and the registry that it names.
func (a *app) packagePolicy() (*policy.Policy, string, error) {
	h, err := a.home()
	if err != nil {
		return nil, "", err
	}
	path := a.policyPath(h)
	if err := a.outside("", h.Dir(), path); err != nil {
		return nil, "", err
	}
	_, pol, err := readPolicy(path)
	if err != nil {
		return nil, "", err
	}
	if pol.Packages.Registry == "" {
		err := fmt.Errorf("%s: packages.registry is not set; write what this prints there", display.Escape(path))
		return nil, "", &hintError{err, display.Command("npm", "config", "get", "registry")}
	}
	origin, err := packages.Origin(pol.Packages.Registry)
	if err != nil {
		return nil, "", fmt.Errorf("%s: packages.registry: %w", display.Escape(path), err)
	}
	return pol, origin, nil
}

// packageError gives an error of package packages its remedy.
func packageError(err error) error {
	var refused *packages.Error
	if !errors.As(err, &refused) {
		return err
	}
	r := packages.RemedyOf(err)
	hint := r.Advice
	if len(r.Command) > 0 {
		hint = display.Command(r.Command...)
	}
	return &hintError{err, hint}
}

// exactSpec takes NAME@VERSION and, where every version may be meant, NAME.
func exactSpec(text string, alone bool) (packages.Spec, error) {
	s, err := packages.ParseSpec(text)
	switch {
	case err != nil:
		return s, packageError(err)
	case s.Version != "" || alone && !strings.Contains(strings.TrimPrefix(text, "@"), "@"):
		return s, nil
	}
	return s, packageError(&packages.Error{Reason: packages.BadVersion, Subject: text, Detail: "one exact version is needed"})
}

func newDenyPackageCommand(a *app, engine *string) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:   "deny-package NAME[@VERSION]",
		Short: "Deny a package, or one version of it",
		Long:  `A denial is stronger than every approval. Without a version it is about every version.`,
		Example: `  proctor trust deny-package left-pad@1.3.0
  proctor trust deny-package left-pad --reason 'use padStart'`,
		Annotations: schema("proctor/packages/v1"),
		Args:        cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.denyPackage(cmd.Context(), *engine, args[0], reason)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

func (a *app) denyPackage(ctx context.Context, engine, text, reason string) error {
	s, err := exactSpec(text, true)
	if err != nil {
		return err
	}
	_, origin, err := a.packagePolicy()
	if err != nil {
		return err
	}
	p := wire.Package{Registry: origin, Name: s.Name, Version: s.Version}
	reply, err := a.askPackages(ctx, engine, wire.PackagesRequest{Act: "deny", Packages: []wire.Package{p}, Note: reason})
	if err != nil {
		return err
	}
	if a.asJSON {
		a.printPackages("denied", reply)
		return nil
	}
	word := "denied"
	if reply.Same > 0 {
		word = "denied already:"
	}
	_, _ = fmt.Fprintf(a.out, "%s %s from %s\n", word, packageName(p), display.Escape(origin))
	return nil
}

func newRevokePackageCommand(a *app, engine *string) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke-package NAME[@VERSION]",
		Short: "Take back a package's records, approved or denied",
		Long:  `Without a version, every record of the package is taken back, in whatever registry.`,
		Example: `  proctor trust revoke-package left-pad@1.3.0
  proctor trust revoke-package left-pad`,
		Annotations: schema("proctor/packages/v1"),
		Args:        cobra.ExactArgs(1),
		RunE:        func(cmd *cobra.Command, args []string) error { return a.revokePackage(cmd.Context(), *engine, args[0]) },
	}
}

func (a *app) revokePackage(ctx context.Context, engine, text string) error {
	s, err := exactSpec(text, true)
	if err != nil {
		return err
	}
	reply, err := a.askPackages(ctx, engine, wire.PackagesRequest{Act: "revoke", Packages: []wire.Package{{Name: s.Name, Version: s.Version}}})
	if err != nil {
		return err
	}
	if len(reply.Records) == 0 {
		return &failedError{&hintError{errors.New("nothing is recorded for " + display.Escape(text)), "proctor trust list-packages"}, exitFail}
	}
	if a.asJSON {
		a.printPackages("revoked", reply)
		return nil
	}
	for _, r := range reply.Records {
		_, _ = fmt.Fprintf(a.out, "revoked %s from %s: it was %s; nothing is recorded for it now\n", packageName(r.Package), display.Escape(r.Registry), r.Decision)
	}
	return nil
}

func newListPackagesCommand(a *app, engine *string) *cobra.Command {
	return &cobra.Command{
		Use:   "list-packages",
		Short: "List every record about packages",
		Example: `  proctor trust list-packages
  proctor trust list-packages --json`,
		Annotations: schema("proctor/packages/v1"),
		Args:        cobra.NoArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.listPackages(cmd.Context(), *engine) },
	}
}

func (a *app) listPackages(ctx context.Context, engine string) error {
	reply, err := a.askPackages(ctx, engine, wire.PackagesRequest{Act: "list"})
	if err != nil {
		return err
	}
	for _, r := range reply.Records {
		if r.Stale != "" {
			a.complain(fmt.Sprintf("warning: %s grants nothing: npm does not read its version as one (%s)", packageName(r.Package), r.Stale))
		}
	}
	if a.asJSON {
		a.printPackages("", reply)
		return nil
	}
	if len(reply.Records) == 0 {
		a.complain("no package was approved or denied yet")
		return nil
	}
	now, onTerminal := time.Now(), terminal(a.out, a.env)
	var cells [][]string
	for _, r := range reply.Records {
		row := packageRowOf(r, now)
		recorded, expires, integrity := r.Recorded.UTC().Format(time.RFC3339), "never", r.Integrity
		if r.Expires != nil {
			expires = r.Expires.UTC().Format(time.RFC3339)
		}
		if onTerminal {
			recorded, expires = display.Age(r.Recorded, now), leftOf(r.Expires, now)
			integrity = integrity[:min(len(integrity), 19)]
		}
		name := r.Name + "@" + r.Version
		if r.Version == "" {
			name = r.Name + "@*"
		}
		cells = append(cells, []string{row.Decision, row.Now, recorded, expires, integrity, display.Escape(r.Registry), display.Escape(name)})
	}
	a.table("DECISION\tNOW\tRECORDED\tEXPIRES\tINTEGRITY\tREGISTRY\tPACKAGE", cells)
	if onTerminal {
		_, _ = fmt.Fprintf(a.out, "%s\n", display.Plural(int64(len(reply.Records)), "record"))
	}
	return nil
}
