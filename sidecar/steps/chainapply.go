package steps

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/keys/safedir"
	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// Files that release hands to apply: what the seal says of the bytes, and the
// streams that it names by their digests.
const (
	releaseFile  = "release.json"
	manifestFile = "seal.manifest"
)

type released struct {
	Session  string `json:"session"`
	Baseline string `json:"baseline_sha256"`
	Manifest string `json:"manifest_sha256"`
}

// ChainRelease holds the last session's seal against the ledger, as before any
// apply, and hands over what apply goes by. It has no product.
func ChainRelease(ctx context.Context, c ChainLayout) error {
	if err := empty(c.Release); err != nil {
		return err
	}
	part, err := safedir.Open(c.Session, c.Rules)
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	session, err := sessionForServe(part)
	if err != nil {
		return err
	}
	env, err := os.ReadFile(filepath.Join(c.Seals, session.Session+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return &RefusedError{Err: errors.New("the last session has no seal"), Hint: "docker compose run --rm seal"}
	}
	if err != nil {
		return err
	}
	if err := CheckApply(ctx, c.Layout, bytes.NewReader(env), io.Discard); err != nil {
		var refused *RefusedError
		if errors.As(err, &refused) {
			refused.Hint = "docker compose run --rm seal"
		}
		return err
	}
	_, payload, err := keys.Payload(env) // verified just now
	if err != nil {
		return err
	}
	st, err := seal.Parse(payload)
	if err != nil {
		return err
	}
	p := st.Predicate
	line, err := strictjson.Marshal(released{p.Session, p.Baseline.StreamSHA256, p.Manifest.SHA256})
	if err != nil {
		return err
	}
	return errors.Join(
		handCopy(filepath.Join(c.Session, baselineFile), c.Release, baselineFile),
		handCopy(filepath.Join(c.Seals, session.Session+".manifest"), c.Release, manifestFile),
		writeWhole(c.Release, releaseFile, 0o644, func(w io.Writer) error { _, err := w.Write(line); return err }),
	)
}

func handCopy(from, dir, name string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return writeWhole(dir, name, 0o644, func(w io.Writer) error { _, err := io.Copy(w, f); return err })
}

// ChainApply writes the sealed bytes of the stage into the product.
func ChainApply(ctx context.Context, c ChainLayout, productDir, stage string) (wire.ApplyReply, string, error) {
	var reply wire.ApplyReply
	var say released
	b, err := os.ReadFile(filepath.Join(c.Release, releaseFile))
	if err != nil {
		return reply, "", err
	}
	if err := strictjson.Unmarshal(b, &say, strictjson.Limits{Size: 4096}); err != nil {
		return reply, "", err
	}
	cfg := ApplyConfig{BaselineSHA256: say.Baseline, SealSHA256: say.Manifest}
	for path, f := range map[string]**os.File{
		productDir: &cfg.Product, stage: &cfg.Stage,
		filepath.Join(c.Release, baselineFile): &cfg.BaselineStream, filepath.Join(c.Release, manifestFile): &cfg.Manifest,
	} {
		if *f, err = os.Open(path); err != nil {
			return reply, "", err
		}
		defer func() { _ = (*f).Close() }()
	}
	var out bytes.Buffer
	if err := Apply(ctx, cfg, &out); err != nil {
		return reply, "", err
	}
	err = strictjson.Unmarshal(bytes.TrimSpace(out.Bytes()), &reply, strictjson.Limits{Size: wire.MaxAnswer})
	return reply, say.Session, err
}

// Complain is what stands in the way of an apply, in lines; none says that it is
// done.
func Complain(r wire.ApplyReply) []string {
	var lines []string
	for _, c := range r.Conflicts {
		lines = append(lines, "conflict: "+display.Escape(c.Path.Raw())+": "+display.Escape(c.Reason))
	}
	for _, m := range r.Missing {
		lines = append(lines, "not written: "+display.Escape(m.Raw()))
	}
	if r.Error != "" && len(lines) == 0 {
		lines = append(lines, display.Escape(r.Error))
	}
	return lines
}
