package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// explainPath decides a file's content of now as the supervisor would.
func (a *app) explainPath(ctx context.Context, engine, word string) error {
	abs, err := absolute(word)
	if err != nil {
		return err
	}
	t, err := a.openTrust(ctx, engine, "")
	if err != nil {
		return err
	}
	defer func() { _ = t.close() }()
	req := wire.TrustRequest{Schema: "proctor/trust/v1", Act: "show", By: hostUser()}
	reply, path, err := t.aboutContent(ctx, req, abs)
	if path == "" {
		if path, err = resolved(abs); err != nil {
			return err
		}
		none, noneErr := noContent(fmt.Errorf("%s cannot be read", display.Escape(path)))
		if noneErr != nil {
			return noneErr
		}
		req.Path = pathIn(path)
		reply, err = t.launcher.Trust(ctx, req, none)
	}
	if err != nil {
		return err
	}
	shown := shownOf(path, "", reply)
	e := explanation{
		Kind: "path", Subject: path, Allowed: shown.Allowed, Reason: decisionText(shown.Allowed, shown.Reason),
		Rule: pathRule(shown), Detail: auditsWord(path),
	}
	if shown.SHA256 != "" {
		e.Identity = "sha256:" + shown.SHA256 + ", " + display.Size(shown.Size)
		if !shown.Allowed {
			e.Remedy = a.pasteable(shown.command("approve", path))
		}
	}
	a.printExplanation(e)
	return nil
}

// pathRule names the record that decided.
func pathRule(s trustShown) string {
	r := s.Record
	if r == nil {
		return "absence is never assent"
	}
	text := fmt.Sprintf("%s sha256:%s on %s by %s", r.Decision, r.SHA256, r.Recorded.UTC().Format(time.DateOnly), r.By)
	if r.Expires != nil {
		text += until(r.Expires)
	}
	if r.Note != "" {
		text += ": " + r.Note
	}
	return text
}

// auditsWord is what the audit makes of a file in that place.
func auditsWord(path string) string {
	class, kind := audit.Place(filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path))
	switch class {
	case audit.ClassTrap:
		return "in that place it is a trap (" + kind + "): a change fails the audit unless its content is approved"
	case audit.ClassTree:
		return "in that place it says which dependencies are installed (" + kind + "): a change fails the audit unless its content is approved, or the policy lists it"
	case audit.ClassReview:
		return "in that place it is for review (" + kind + "): a change is listed, or fails where the policy says so"
	}
	return "in that place the audit asks for no approval of its content"
}
