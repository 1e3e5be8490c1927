package steps

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/proctor-project/proctor/sidecar/ledger"
	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// maxPackages bounds the acts of one request.
const maxPackages = 10_000

// Packages lists what was decided about packages, or records the operator's
// word on some: all of it in one act of the ledger, or nothing.
func Packages(ctx context.Context, layout Layout, stdin io.Reader, stdout io.Writer) error {
	var req wire.PackagesRequest
	if err := request(bufio.NewReader(stdin), &req); err != nil {
		return &RefusedError{Err: err}
	}
	if err := checkPackages(req); err != nil {
		return &RefusedError{Err: err}
	}
	o, err := openOperator(layout)
	if err != nil {
		return err
	}
	defer o.close()
	reply := wire.PackagesReply{Schema: "proctor/packages-reply/v1", Records: []wire.PackageRecord{}}
	if err := o.packages(ctx, req, &reply); err != nil {
		return err
	}
	if reply.Anchor, err = o.anchor(); err != nil {
		return err
	}
	return answer(stdout, reply)
}

func (o *operator) packages(ctx context.Context, req wire.PackagesRequest, reply *wire.PackagesReply) error {
	if req.Act == "list" {
		state, err := o.view()
		if err != nil {
			return err
		}
		for _, r := range state.Packages() {
			reply.Records = append(reply.Records, packageRecord(r))
		}
		return nil
	}
	now := time.Now().UTC()
	done, err := o.update(ctx, func(s *ledger.State) ([]ledger.Entry, error) {
		if req.Act == "revoke" {
			return revokePackages(s, req, now, reply), nil
		}
		if req.Act == "approve" {
			named := ""
			if len(req.Packages) == 1 {
				named = specOf(req.Packages[0])
			}
			if err := stillDenied(s, req.Packages, named); err != nil {
				return nil, &RefusedError{Err: err}
			}
		}
		return decidePackages(s, req, now, reply), nil
	})
	if req.Act != "revoke" {
		for _, e := range done {
			reply.Records = append(reply.Records, packageRecord(ledger.PackageRecord{PackageAct: *e.Package, Time: e.Time, By: e.By, Seq: e.Seq}))
		}
	}
	return err
}

// decidePackages makes an act for each package that is not decided so already.
func decidePackages(s *ledger.State, req wire.PackagesRequest, now time.Time, reply *wire.PackagesReply) []ledger.Entry {
	kind, decision := ledger.KindApprove, ledger.Approved
	if req.Act == "deny" {
		kind, decision = ledger.KindDeny, ledger.Denied
	}
	var acts []ledger.Entry
	for _, p := range req.Packages {
		act := ledger.PackageAct{
			Registry: p.Registry, Name: p.Name, Version: p.Version, Integrity: p.Integrity,
			Decision: decision, Note: req.Note, Expires: req.Expires,
		}
		if r, ok := s.Package(p.Registry, p.Name, p.Version); ok && samePackage(r.PackageAct, act) {
			reply.Same++
			continue
		}
		acts = append(acts, ledger.Entry{Time: now, By: byline(req.User), Kind: kind, Package: &act})
	}
	return acts
}

func specOf(p wire.Package) string { return p.Name + "@" + p.Version }

// stillDenied refuses to approve what a recorded denial covers, unless it is the
// very version that was named: what comes along with it, in a closure or a lock
// file, must not turn a denial into an approval unseen. A denial of every version
// is never replaced by one version's approval, which would grant nothing.
func stillDenied(s *ledger.State, all []wire.Package, named string) error {
	var errs []error
	for _, p := range all {
		r, denied := s.PackageDenied(p.Registry, p.Name, p.Version)
		if !denied || r.Version != "" && specOf(p) == named {
			continue
		}
		what := p.Name
		if r.Version != "" {
			what = specOf(p)
		}
		errs = append(errs, fmt.Errorf("%s is denied by act %d; nothing was approved; proctor trust revoke-package %s takes that back", what, r.Seq, what))
	}
	return errors.Join(errs...)
}

func samePackage(a, b ledger.PackageAct) bool {
	sameEnd := a.Expires == nil && b.Expires == nil || a.Expires != nil && b.Expires != nil && a.Expires.Equal(*b.Expires)
	a.Expires, b.Expires = nil, nil
	return sameEnd && a == b
}

// revokePackages makes an act for each live record that the request names, in
// whatever registry.
func revokePackages(s *ledger.State, req wire.PackagesRequest, now time.Time, reply *wire.PackagesReply) []ledger.Entry {
	var acts []ledger.Entry
	for _, r := range s.Packages() {
		for _, p := range req.Packages {
			if r.Name != p.Name || p.Version != "" && r.Version != p.Version || p.Registry != "" && r.Registry != p.Registry {
				continue
			}
			reply.Records = append(reply.Records, packageRecord(r))
			acts = append(acts, ledger.Entry{
				Time: now, By: byline(req.User), Kind: ledger.KindRevoke,
				Package: &ledger.PackageAct{Registry: r.Registry, Name: r.Name, Version: r.Version},
			})
			break
		}
	}
	return acts
}

func packageRecord(r ledger.PackageRecord) wire.PackageRecord {
	out := wire.PackageRecord{
		Package:  wire.Package{Registry: r.Registry, Name: r.Name, Version: r.Version, Integrity: r.Integrity},
		Decision: string(r.Decision), Note: r.Note, By: r.By, Recorded: r.Time, Expires: r.Expires, Act: r.Seq,
	}
	if r.Version != "" {
		if err := packages.CheckVersion(r.Version); err != nil {
			out.Stale = err.Error()
		}
	}
	return out
}

func checkPackages(req wire.PackagesRequest) error {
	if req.Schema != "proctor/packages/v1" {
		return fmt.Errorf("schema %q", req.Schema)
	}
	if len(req.Packages) > maxPackages {
		return fmt.Errorf("%d packages, at most %d", len(req.Packages), maxPackages)
	}
	seen := map[wire.Package]bool{}
	for _, p := range req.Packages {
		if err := checkPackage(req.Act, p); err != nil {
			return err
		}
		key := p
		key.Integrity = ""
		if seen[key] {
			return fmt.Errorf("package %s@%s twice", p.Name, p.Version)
		}
		seen[key] = true
	}
	switch req.Act {
	case "list":
		return nil
	case "approve", "deny", "revoke":
		if len(req.Packages) == 0 {
			return errors.New("no package")
		}
		if req.Expires != nil && req.Act != "approve" {
			return errors.New("only an approval expires")
		}
		return nil
	}
	return fmt.Errorf("unknown act %q", req.Act)
}

// checkPackage holds one package against what its act may name.
func checkPackage(act string, p wire.Package) error {
	if act == "approve" {
		return packages.Identity{Registry: p.Registry, Name: p.Name, Version: p.Version, Integrity: p.Integrity}.Check()
	}
	if err := packages.CheckName(p.Name); err != nil {
		return fmt.Errorf("package %q: %w", p.Name, err)
	}
	if p.Integrity != "" {
		return fmt.Errorf("package %q: an integrity belongs to an approval only", p.Name)
	}
	if act != "deny" {
		return nil // a record of any version can be revoked
	}
	if origin, err := packages.Origin(p.Registry); err != nil || origin != p.Registry {
		return fmt.Errorf("package %q: no registry's origin", p.Name)
	}
	if p.Version != "" {
		if err := packages.CheckVersion(p.Version); err != nil {
			return fmt.Errorf("package %q: %w", p.Name+"@"+p.Version, err)
		}
	}
	return nil
}
