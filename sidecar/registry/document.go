package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/semver"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/door"
	"github.com/proctor-project/proctor/sidecar/packages"
)

// packument is a package's document as npm reads it.
type packument struct {
	Name     string             `json:"name"`
	Tags     map[string]string  `json:"dist-tags"`
	Versions map[string]version `json:"versions"`
}

// archivesAtOnce bounds how many archives one document reads at a time.
const archivesAtOnce = 4

// document answers with a package's document, or with one version of it.
func (d *Door) document(w http.ResponseWriter, r *http.Request, a asked) answer {
	p := packument{Name: a.name, Tags: map[string]string{}, Versions: map[string]version{}}
	if rule, denied := d.cfg.Rules.PackageDenied(a.name); denied {
		dec := packages.Decision{Reason: packages.DeniedByPolicy, Rule: rule}
		return answer{outcome: d.refuse(w, refusalOfName(a.name, dec))}
	}
	known, err := d.cfg.Named(a.name)
	if err != nil {
		return answer{outcome: d.refuse(w, refusalOfName(a.name, packages.Decision{Reason: packages.Broken, Err: err}))}
	}
	select {
	case d.room <- struct{}{}:
		defer func() { <-d.room }()
	case <-r.Context().Done():
		return answer{outcome: "failed"}
	}
	var approved []packages.Identity
	for _, id := range known {
		if d.cfg.Decide(id).Allowed {
			approved = append(approved, id)
		}
	}
	if _, allowed := d.cfg.Rules.PackageAllowed(a.name); len(approved) == 0 && !allowed {
		return d.unapproved(w, r, a, p, known)
	}
	ask := sync.OnceValues(func() (*packages.Document, error) { return d.ask.document(r.Context(), a.name) })
	troubles := d.read(r.Context(), approved, &p, ask)
	doc, asked := d.fromRegistry(r, a.name, &p, ask)
	if len(p.Versions) == 0 {
		return d.nothing(w, a.name, troubles, asked)
	}
	if latest := newest(p.Versions); latest != "" {
		p.Tags["latest"] = latest
	} else if doc != nil {
		p.Tags["latest"] = doc.Tags()["latest"]
	}
	return d.write(w, r, a, p, len(approved))
}

// asking returns the registry's document; it is asked for once a request.
type asking func() (*packages.Document, error)

// read adds the approved versions. It returns why others were left out.
func (d *Door) read(ctx context.Context, all []packages.Identity, p *packument, ask asking) map[packages.Identity]error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	troubles := map[packages.Identity]error{}
	room := make(chan struct{}, archivesAtOnce)
	for _, id := range all {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			v, err := d.version(ctx, id, ask)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				troubles[id] = err
				return
			}
			p.Versions[id.Version] = v
		})
	}
	wg.Wait()
	return troubles
}

// version is what an approved archive says of itself; where the cache does not
// have it yet, what the registry says of the very same bytes, so that an archive
// for another machine need not be fetched to know that.
func (d *Door) version(ctx context.Context, id packages.Identity, ask asking) (version, error) {
	d.mu.Lock()
	v, ok := d.versions[id]
	d.mu.Unlock()
	if ok {
		return v, nil
	}
	a, err := d.cfg.Cache.open(id.Integrity)
	if errors.Is(err, errNotCached) {
		if doc, err := ask(); err == nil {
			if v, same := d.entry(doc, id); same {
				return v, nil
			}
		}
		a, err = d.archive(ctx, id)
	}
	if err != nil {
		return v, err
	}
	v, err = ownWords(a, id)
	if errors.Is(err, errOther) { // the cache had them, and has them no more
		if a, err = d.archive(ctx, id); err == nil {
			v, err = ownWords(a, id)
		}
	}
	if err != nil {
		return v, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.versions) >= maxRemembered {
		clear(d.versions)
	}
	d.versions[id] = v
	return v, nil
}

// ownWords is what an archive says of itself, once all its bytes were right; it
// closes the archive.
func ownWords(a *archive, id packages.Identity) (version, error) {
	defer func() { _ = a.Close() }()
	from, to := io.Pipe()
	right := make(chan error, 1)
	go func() {
		_, err := a.WriteTo(to)
		_ = to.CloseWithError(err)
		right <- err
	}()
	v, err := readArchive(from, id)
	_, _ = io.Copy(io.Discard, from) // the rest of it counts, too
	_ = from.Close()
	if wrong := <-right; wrong != nil {
		return version{}, wrong
	}
	return v, err
}

// fromRegistry adds what only the registry knows: every version of a name that
// the policy allows, and for npm the versions that are not approved, as places
// where it meets the refusal: without them it would say that there is no such
// version. They have no dependencies and are marked deprecated, so that npm takes
// an approved one wherever one fits.
func (d *Door) fromRegistry(r *http.Request, name string, p *packument, ask asking) (*packages.Document, error) {
	_, allowed := d.cfg.Rules.PackageAllowed(name)
	npm := strings.HasPrefix(r.UserAgent(), "npm/")
	if !allowed && !npm {
		return nil, nil
	}
	doc, err := ask()
	if err != nil {
		return nil, err
	}
	all, _ := doc.Versions()
	for _, v := range all {
		if _, have := p.Versions[v]; have {
			continue
		}
		if allowed {
			id, err := doc.Identity(packages.Spec{Name: name, Version: v})
			if entry, ok := d.entry(doc, id); ok && err == nil && d.cfg.Decide(id).Allowed {
				p.Versions[v] = entry
				continue
			}
		}
		if npm {
			p.Versions[v] = place(name, v)
		}
	}
	return doc, nil
}

// place is where npm meets the refusal of a version.
func place(name, v string) version {
	// npx gives up on a package without a program before it asks for it.
	return version{Name: name, Version: v, Deprecated: "not approved", Bin: normalBin(name, json.RawMessage(`"refused"`))}
}

// unapproved answers for a name of which nothing is approved, without a word to
// the registry: an agent that may have any name asked for can spell with them
// whatever it knows. npm is shown the versions that the records have, so that it
// meets the words of their own refusal.
func (d *Door) unapproved(w http.ResponseWriter, r *http.Request, a asked, p packument, known []packages.Identity) answer {
	for _, id := range known {
		p.Versions[id.Version] = place(a.name, id.Version)
		if latest, ok := p.Tags["latest"]; !ok || better(id.Version, latest) {
			p.Tags["latest"] = id.Version
		}
	}
	if len(known) > 0 && (a.kind == manifest || strings.HasPrefix(r.UserAgent(), "npm/")) {
		return d.write(w, r, a, p, 0)
	}
	no := packages.Decision{Reason: packages.NotApproved}
	if a.kind == manifest && packages.CheckVersion(a.version) == nil {
		return answer{outcome: d.refuse(w, refusal(packages.Identity{Name: a.name, Version: a.version}, no))}
	}
	return answer{outcome: d.refuse(w, refusalOfName(a.name, no))}
}

// entry is what the registry says of an identity, if it names the same bytes.
func (d *Door) entry(doc *packages.Document, id packages.Identity) (version, bool) {
	same, err := doc.Identity(packages.Spec{Name: id.Name, Version: id.Version})
	if err != nil || same != id {
		return version{}, false
	}
	var e version
	var wide struct {
		HasInstallScript bool `json:"hasInstallScript,omitempty"`
		HasShrinkwrap    bool `json:"_hasShrinkwrap,omitempty"`
		packageJSON
	}
	if err := strictjson.NewForeign(strictjson.Limits{Size: maxManifest, Depth: maxDepth}).Unmarshal(doc.Entry(id.Version), &wide); err != nil {
		return version{}, false
	}
	e = fromManifest(wide.packageJSON, id)
	e.HasInstallScript, e.HasShrinkwrap = wide.HasInstallScript || installs(wide.packageJSON, false), wide.HasShrinkwrap
	return e, true
}

// newest is the highest version that is not marked, releases before others.
func newest(all map[string]version) string {
	best := ""
	for v, e := range all {
		if e.Deprecated != "" {
			continue
		}
		if best == "" || better(v, best) {
			best = v
		}
	}
	return best
}

func better(a, b string) bool {
	ra, rb := semver.Prerelease("v"+a) == "", semver.Prerelease("v"+b) == ""
	if ra != rb {
		return ra
	}
	return semver.Compare("v"+a, "v"+b) > 0
}

// nothing answers where there is no version at all.
func (d *Door) nothing(w http.ResponseWriter, name string, troubles map[packages.Identity]error, asked error) answer {
	for id, err := range troubles {
		return d.failed(w, id, err, http.StatusNotFound)
	}
	if packages.ReasonOf(asked) == packages.Unknown {
		if !d.record(w, "npm-unknown", failedRow{name, asked.Error()}) {
			return answer{outcome: "failed"}
		}
		fail(w, http.StatusNotFound, name+" is not in the registry")
		return answer{outcome: "failed"}
	}
	return answer{outcome: d.refuse(w, refusalOfName(name, packages.Decision{Reason: packages.NotApproved}))}
}

// refusalOfName is a refusal where no version is known: only one version can be
// approved or asked for, so the operator is led to what names one.
func refusalOfName(name string, dec packages.Decision) door.Refusal {
	r := refusal(packages.Identity{Name: name}, dec)
	r.What, r.Ask = name, nil
	if dec.Reason == packages.NotApproved {
		r.Remedy = []string{"proctor", "explain", name}
	}
	return r
}

type documentRow struct {
	Package  string   `json:"package"`
	Approved []string `json:"approved"`
}

func (d *Door) write(w http.ResponseWriter, r *http.Request, a asked, p packument, approved int) answer {
	row := documentRow{a.name, make([]string, 0, approved)}
	at := d.cfg.Address
	if strings.HasPrefix(r.UserAgent(), "npm/") {
		// npm writes the link into the product's lock file, and turns the
		// registry's own address into this door's (replace-registry-host).
		at = d.origin
	}
	for v, e := range p.Versions {
		e.Dist.Tarball = at + archivePath(a.name, v)
		p.Versions[v] = e
		if e.Deprecated == "" {
			row.Approved = append(row.Approved, v)
		}
	}
	slices.SortFunc(row.Approved, func(x, y string) int { return semver.Compare("v"+x, "v"+y) })
	var body any = p
	if a.kind == manifest {
		v := a.version
		if t, ok := p.Tags[v]; ok {
			v = t
		}
		one, ok := p.Versions[v]
		if !ok || one.Deprecated != "" {
			no := packages.Decision{Reason: packages.NotApproved}
			if packages.CheckVersion(v) != nil {
				return answer{outcome: d.refuse(w, refusalOfName(a.name, no))}
			}
			return answer{outcome: d.refuse(w, refusal(packages.Identity{Name: a.name, Version: v}, no))}
		}
		body = one
	}
	b, err := json.Marshal(body)
	if err != nil {
		fail(w, http.StatusInternalServerError, fmt.Sprintf("document of %s: %v", a.name, err))
		return answer{outcome: "failed"}
	}
	if len(row.Approved) > maxRowVersions {
		row.Approved = row.Approved[len(row.Approved)-maxRowVersions:]
	}
	if !d.record(w, "npm-document", row) {
		return answer{outcome: "failed"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // an approval counts at once
	_, _ = w.Write(b)
	// The connection may be asked for more, which has a time of its own.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(idleTimeout))
	return answer{outcome: "allowed", bytes: int64(len(b))}
}

// maxRowVersions bounds a row of the record; the newest are named.
const maxRowVersions = 100
