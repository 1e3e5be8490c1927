package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/hosts"
	"github.com/proctor-project/proctor/sidecar/packages/closure"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// wanted is what a request comes to. Of a package it is the exact identity, and
// those that installing it brings; of a host, what is recorded.
type wanted struct {
	members []closure.Member // the one that is asked for first
	before  []string         // what is recorded of other versions, or of the host
	err     error
}

// wantedOf resolves what a request is for; nothing is run.
func (a *app) wantedOf(ctx context.Context, engine string, r requestRow) wanted {
	switch r.Subject.Kind {
	case wire.SubjectPackage:
		return a.wantedPackages(ctx, engine, r)
	case wire.SubjectHost:
		return a.wantedHost(ctx, engine, r)
	}
	return wanted{}
}

// wantedHost finds what is recorded of a host: of the very one, of a pattern that
// covers it, and of its other ports.
func (a *app) wantedHost(ctx context.Context, engine string, r requestRow) wanted {
	target, err := hosts.Parse(r.Subject.Name())
	var reply wire.HostsReply
	if err == nil {
		reply, err = a.askHosts(ctx, engine, wire.HostsRequest{Act: "list"})
	}
	if err != nil {
		return wanted{before: []string{"cannot be told: " + display.Escape(err.Error())}}
	}
	var w wanted
	now := time.Now()
	for _, rec := range reply.Records {
		p, err := hosts.NewPattern(rec.Host, rec.Port)
		if err == nil && (p.Matches(target) || rec.Host == target.Host()) {
			w.before = append(w.before, fmt.Sprintf("%s, %s %s by %s%s", p, rec.Decision, display.Age(rec.Recorded, now), display.Escape(rec.By), until(rec.Expires)))
		}
	}
	if len(w.before) == 0 {
		w.before = []string{"nothing is recorded for it"}
	}
	return w
}

func (a *app) wantedPackages(ctx context.Context, engine string, r requestRow) wanted {
	var w wanted
	all, err := a.namedPackages(ctx, r.Subject.Package, approvePackageOptions{closure: true})
	if err != nil {
		return wanted{err: packageError(err)}
	}
	for _, m := range all {
		if m.Spec() == r.Subject.Package {
			w.members = append([]closure.Member{m}, w.members...)
		} else {
			w.members = append(w.members, m)
		}
	}
	if len(w.members) == 0 || w.members[0].Spec() != r.Subject.Package {
		return wanted{err: fmt.Errorf("%s is not among what it resolves to", display.Escape(r.Subject.Package))}
	}
	reply, err := a.askPackages(ctx, engine, wire.PackagesRequest{Act: "list"})
	if err != nil {
		return wanted{err: err}
	}
	for _, rec := range reply.Records {
		if rec.Name == w.members[0].Name {
			w.before = append(w.before, fmt.Sprintf("%s, %s %s by %s", packageName(rec.Package), rec.Decision, rec.Recorded.UTC().Format("2006-01-02"), display.Escape(rec.By)))
		}
	}
	return w
}

func (w wanted) any() bool { return len(w.members) > 0 }

// lines describe it, each with its name.
func (w wanted) lines() [][2]string {
	if w.err != nil {
		return [][2]string{{"identity", "none: " + display.Escape(w.err.Error())}}
	}
	if !w.any() {
		return w.befores()
	}
	root := w.members[0]
	lines := [][2]string{{"registry", display.Escape(root.Registry)}, {"integrity", root.Integrity}}
	scripts := 0
	for _, m := range w.members {
		if m.Scripts {
			scripts++
		}
	}
	text := display.Plural(int64(len(w.members)), "package")
	if scripts == 0 {
		text += ", no install scripts"
	} else {
		text += fmt.Sprintf(", %d with install scripts", scripts)
	}
	lines = append(lines, [2]string{"closure", text})
	if len(w.before) == 0 {
		lines = append(lines, [2]string{"before", "nothing is recorded for any version"})
	}
	return append(lines, w.befores()...)
}

func (w wanted) befores() [][2]string {
	var lines [][2]string
	for _, b := range w.before {
		lines = append(lines, [2]string{"before", b})
	}
	return lines
}

// granted is what an approval would record.
func (w wanted) granted(whole bool) []wire.Package {
	members := w.members
	if !whole && len(members) > 0 {
		members = members[:1]
	}
	all := []wire.Package{}
	for _, m := range members {
		all = append(all, wire.Package{Registry: m.Registry, Name: m.Name, Version: m.Version, Integrity: m.Integrity})
	}
	return all
}

func (w wanted) identities() []wire.Package { return w.granted(true) }

// digest is over the request and every identity that would be approved: what an
// approval has to name.
func (w wanted) digest(r requestRow, whole bool) string {
	if !w.any() {
		return r.SHA256
	}
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "%s\n", r.SHA256)
	for _, p := range w.granted(whole) {
		_, _ = fmt.Fprintf(&text, "%q %q %q %q\n", p.Registry, p.Name, p.Version, p.Integrity)
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])
}

// approvals are the commands that approve exactly what is shown.
func (w wanted) approvals(r requestRow) []string {
	if w.err != nil {
		return nil
	}
	line := "proctor requests approve " + r.ID + " --session " + r.Session
	all := []string{line + " --expect " + w.digest(r, false)}
	if len(w.members) > 1 {
		all = append(all, line+" --closure --expect "+w.digest(r, true))
	}
	return all
}
