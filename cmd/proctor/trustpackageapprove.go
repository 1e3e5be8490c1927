package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/packages/closure"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// approvePackageOptions are the flags of approve-package.
type approvePackageOptions struct {
	closure   bool
	lockFile  string
	integrity string
	note      string
	expires   string
	dryRun    bool
}

func newApprovePackageCommand(a *app, engine *string) *cobra.Command {
	var opts approvePackageOptions
	cmd := &cobra.Command{
		Use:   "approve-package NAME@VERSION",
		Short: "Approve exactly one version of a package, its closure, or a lock file's packages",
		Long: `An approval is for exactly one registry, name, version and integrity. The registry is
packages.registry of the policy; it is asked for the integrity, and nothing is run. With
--integrity nothing is asked. With --closure every package that installing this one brings
is shown and approved, with --from-lockfile every package that a package-lock.json names.`,
		Example: `  proctor trust approve-package left-pad@1.3.0
  proctor trust approve-package @modelcontextprotocol/server-filesystem@2025.8.21 --closure
  proctor trust approve-package --from-lockfile package-lock.json --expires 30d`,
		Annotations: schema("proctor/packages/v1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.approvePackages(cmd.Context(), *engine, args, opts)
		},
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if (len(args) == 1) == (opts.lockFile != "") || len(args) > 1 {
			return errors.New("one package is needed: NAME@VERSION, or --from-lockfile")
		}
		return nil
	}
	f := cmd.Flags()
	f.BoolVar(&opts.closure, "closure", false, "approve every package that installing this one brings, too")
	f.StringVar(&opts.lockFile, "from-lockfile", "", "approve every package of this package-lock.json instead (versions 2 and 3)")
	f.StringVar(&opts.integrity, "integrity", "", "approve exactly these bytes, sha512-…, without asking the registry")
	f.StringVar(&opts.note, "note", "", "why, for the record")
	f.StringVar(&opts.expires, "expires", "", "when it ends: 90m, 12h, 30d, or a date as 2026-12-31")
	f.BoolVar(&opts.dryRun, "dry-run", false, "show what would be approved, and record nothing")
	return cmd
}

func (a *app) approvePackages(ctx context.Context, engine string, args []string, opts approvePackageOptions) error {
	if opts.lockFile != "" && (opts.closure || opts.integrity != "") {
		return &usageError{errors.New("--from-lockfile has every package and its integrity; it goes with neither --closure nor --integrity")}
	}
	expires, err := lifetime(opts.expires, time.Now())
	if err != nil {
		return err
	}
	var members []closure.Member
	if opts.lockFile != "" {
		members, err = a.lockedPackages(opts.lockFile)
	} else {
		members, err = a.namedPackages(ctx, args[0], opts)
	}
	if err != nil {
		return packageError(err)
	}
	if opts.closure || opts.lockFile != "" || opts.dryRun {
		a.showMembers(members)
	}
	if opts.dryRun {
		if a.asJSON {
			a.printPackages("nothing", wire.PackagesReply{Records: wouldBe(members, expires)})
		}
		return nil
	}
	req := wire.PackagesRequest{Act: "approve", Note: opts.note, Expires: expires}
	for _, m := range members {
		req.Packages = append(req.Packages, wire.Package{Registry: m.Registry, Name: m.Name, Version: m.Version, Integrity: m.Integrity})
	}
	reply, err := a.askPackages(ctx, engine, req)
	if err != nil {
		return err
	}
	a.saidApproved(members, reply, expires)
	return nil
}

// namedPackages is the package that was named, and with --closure its closure.
func (a *app) namedPackages(ctx context.Context, text string, opts approvePackageOptions) ([]closure.Member, error) {
	s, err := exactSpec(text, false)
	if err != nil {
		return nil, err
	}
	pol, origin, err := a.packagePolicy()
	if err != nil {
		return nil, err
	}
	root := packages.Identity{Registry: origin, Name: s.Name, Version: s.Version, Integrity: opts.integrity}
	if opts.integrity != "" {
		if err := root.Check(); err != nil {
			return nil, err
		}
		if !opts.closure {
			return a.warnDenied(pol, []closure.Member{{Identity: root}}), nil
		}
	}
	limit := 0
	if opts.closure {
		limit = closure.MaxDocument
	}
	c, err := packages.NewClient(packages.Config{Registry: origin, MaxDocument: limit})
	if err != nil {
		return nil, err
	}
	if root.Integrity == "" {
		if root, err = c.Resolve(ctx, s.String()); err != nil {
			return nil, err
		}
	}
	if !opts.closure {
		return a.warnDenied(pol, []closure.Member{{Identity: root}}), nil
	}
	a.complain("resolving what " + display.Escape(root.Spec()) + " brings; nothing is run")
	members, err := closure.Resolve(ctx, c, root, closure.Limits{})
	if err != nil {
		return nil, err
	}
	return a.warnDenied(pol, members), nil
}

// warnDenied names what the policy denies: an approval of it grants nothing.
func (a *app) warnDenied(pol interface {
	PackageDenied(string) (string, bool)
}, members []closure.Member,
) []closure.Member {
	for _, m := range members {
		if rule, denied := pol.PackageDenied(m.Name); denied {
			a.complain(fmt.Sprintf("warning: %s stays refused: packages.deny of the policy has %q", display.Escape(m.Spec()), rule))
		}
	}
	return members
}

// lockedPackages are the packages of a lock file. One that is not a package of
// the registry refuses the whole file; all of them are named.
func (a *app) lockedPackages(path string) ([]closure.Member, error) {
	pol, origin, err := a.packagePolicy()
	if err != nil {
		return nil, err
	}
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := readAtMost(f, packages.MaxLock)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", display.Escape(path), err)
	}
	ids, err := packages.LockIdentities(origin, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", display.Escape(path), err)
	}
	members := make([]closure.Member, 0, len(ids))
	for _, id := range ids {
		members = append(members, closure.Member{Identity: id})
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("%s names no package", display.Escape(path))
	}
	return a.warnDenied(pol, members), nil
}

// showMembers lists what is about to be approved, each identity whole.
func (a *app) showMembers(members []closure.Member) {
	var cells [][]string
	for _, m := range members {
		var notes []string
		if m.Optional {
			notes = append(notes, "optional")
		}
		if m.Scripts {
			notes = append(notes, "install scripts")
		}
		if only := slices.Concat(m.OS, m.CPU); len(only) > 0 {
			notes = append(notes, "for "+strings.Join(only, "/"))
		}
		cells = append(cells, []string{m.Integrity, display.Escape(m.Spec()), display.Escape(cmp.Or(strings.Join(notes, ", "), "-"))})
	}
	if !a.asJSON {
		a.table("INTEGRITY\tPACKAGE\tNOTES", cells)
	}
}

func wouldBe(members []closure.Member, expires *time.Time) []wire.PackageRecord {
	all := make([]wire.PackageRecord, 0, len(members))
	for _, m := range members {
		all = append(all, wire.PackageRecord{
			Package:  wire.Package{Registry: m.Registry, Name: m.Name, Version: m.Version, Integrity: m.Integrity},
			Decision: "approved", Expires: expires,
		})
	}
	return all
}

// saidApproved says what is true now.
func (a *app) saidApproved(members []closure.Member, reply wire.PackagesReply, expires *time.Time) {
	if a.asJSON {
		a.printPackages("approved", reply)
		return
	}
	registry := display.Escape(members[0].Registry)
	if len(members) == 1 {
		word := "approved"
		if reply.Same == 1 {
			word = "approved already:"
		}
		m := members[0]
		_, _ = fmt.Fprintf(a.out, "%s %s %s from %s%s\n", word, display.Escape(m.Spec()), m.Integrity, registry, until(expires))
		return
	}
	already := ""
	if reply.Same > 0 {
		already = fmt.Sprintf(" (%s already)", display.Count(int64(reply.Same)))
	}
	_, _ = fmt.Fprintf(a.out, "approved %s from %s%s%s\n", display.Plural(int64(len(members)), "package"), registry, already, until(expires))
	a.complain("hint: " + a.pasteable("proctor trust list-packages"))
}
