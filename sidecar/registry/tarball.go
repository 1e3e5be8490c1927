package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/proctor-project/proctor/sidecar/packages"
)

// identify finds the identity that a name and version stand for here: the one
// that was approved, else what the registry says.
func (d *Door) identify(ctx context.Context, name, version string) (packages.Identity, packages.Decision) {
	id := packages.Identity{Registry: d.origin, Name: name, Version: version}
	known, err := d.cfg.Named(name)
	if err != nil {
		return id, packages.Decision{Reason: packages.Broken, Err: err}
	}
	for _, k := range known {
		if k.Version == version {
			return k, d.cfg.Decide(k)
		}
	}
	if rule, denied := d.cfg.Rules.PackageDenied(name); denied {
		return id, packages.Decision{Reason: packages.DeniedByPolicy, Rule: rule}
	}
	if _, allowed := d.cfg.Rules.PackageAllowed(name); !allowed {
		return id, packages.Decision{Reason: packages.NotApproved}
	}
	doc, err := d.ask.document(ctx, name)
	if err == nil {
		id, err = doc.Identity(packages.Spec{Name: name, Version: version})
	}
	if err != nil {
		return packages.Identity{Registry: d.origin, Name: name, Version: version}, packages.Decision{Reason: packages.NoIdentity, Err: err}
	}
	return id, d.cfg.Decide(id)
}

// tarball answers with an approved version's bytes.
func (d *Door) tarball(w http.ResponseWriter, r *http.Request, a asked) answer {
	id, dec := d.identify(r.Context(), a.name, a.version)
	if !dec.Allowed {
		return answer{outcome: d.refuse(w, refusal(id, dec))}
	}
	got, err := d.archive(r.Context(), id)
	if err != nil {
		return d.failed(w, id, err, http.StatusBadGateway)
	}
	defer func() { _ = got.Close() }()
	if !d.record(w, "npm-tarball", tarballRow{id.Spec(), id.Integrity, got.size}) {
		return answer{outcome: "failed"}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(got.size, 10))
	if r.Method == http.MethodHead {
		return answer{outcome: "allowed"}
	}
	n, err := got.WriteTo(w)
	if errors.Is(err, errOther) {
		_ = d.cfg.Row("npm-failed", failedRow{id.Spec(), "the cache had other bytes; what went out was cut"})
	}
	if err != nil || n != got.size {
		panic(http.ErrAbortHandler) // the client must not take it for whole
	}
	return answer{outcome: "allowed", bytes: n}
}

type tarballRow struct {
	Package   string `json:"package"`
	Integrity string `json:"integrity"`
	Bytes     int64  `json:"bytes"`
}

// failed answers that approved bytes could not be had. Other bytes than those
// that were approved are a refusal: the operator should hear of them. npm asks
// again and again after a 5xx, which no document is worth.
func (d *Door) failed(w http.ResponseWriter, id packages.Identity, err error, status int) answer {
	why := refusalOfBytes(err)
	if why != "" {
		r := refusal(id, packages.Decision{Reason: packages.OtherIntegrity})
		r.Reason, r.Remedy, r.Ask = why, nil, nil
		return answer{outcome: d.refuse(w, r)}
	}
	if !d.record(w, "npm-failed", failedRow{id.Spec(), err.Error()}) {
		return answer{outcome: "failed"}
	}
	fail(w, status, id.Spec()+": "+err.Error())
	return answer{outcome: "failed"}
}

func refusalOfBytes(err error) string {
	if errors.Is(err, errOther) {
		return "is not what was approved: the registry has other bytes"
	}
	return ""
}

type failedRow struct {
	Package string `json:"package"`
	Error   string `json:"error"`
}

// archive returns the verified bytes, from the cache or, the first time, from
// the registry.
func (d *Door) archive(ctx context.Context, id packages.Identity) (*archive, error) {
	a, err := d.cfg.Cache.open(id.Integrity)
	if !errors.Is(err, errNotCached) {
		return a, err
	}
	err = d.cfg.Cache.fill(ctx, id.Integrity, func(ctx context.Context) (io.ReadCloser, error) { return d.fetch(ctx, id) })
	if err != nil {
		return nil, err
	}
	return d.cfg.Cache.open(id.Integrity)
}

// fetch asks the registry for a version's archive, at the place that its address
// gives: what a document says of another place is never followed, nor is a
// redirect.
func (d *Door) fetch(ctx context.Context, id packages.Identity) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.origin+archivePath(id.Name, id.Version), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "proctor")
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch archive: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("fetch archive: the registry answers %s", resp.Status)
	}
	return resp.Body, nil
}
