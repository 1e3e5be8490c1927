package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sandbox/launch"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

func newApplyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "apply SESSION",
		Short: "Bring the changes of a session that passed into its product",
		Long: `Writes exactly the sealed bytes. Every path is checked before the first write: it must still
be what the agent was given, or already what was sealed. Interrupted, it says what is not
written, and running it again completes it.`,
		Example: `  proctor diff 7f3k2q9abcde
  proctor apply 7f3k2q9abcde`,
		Annotations: schema("proctor/apply/v1"),
		Args:        cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, st, err := a.known(args[0])
			if err != nil {
				return err
			}
			e, err := a.openEngine(cmd.Context(), h, engineOptions{name: st.Engine})
			if err != nil {
				return err
			}
			return errors.Join(a.applyTo(cmd.Context(), e, args[0]), e.close())
		},
	}
}

// applyTo applies a session's newest seal and says what that did.
func (a *app) applyTo(ctx context.Context, e *engine, session string) error {
	reply, err := e.apply(ctx, session)
	if a.asJSON {
		doc := a.applyDocument(session, reply, err)
		a.printJSON(doc)
		return outcomeOf(doc.Exit)
	}
	if err != nil {
		return err
	}
	return a.applied(e.home, session, reply)
}

// apply brings home what the newest seal says. An error means that nothing was
// written, or that it is not known what was.
func (e *engine) apply(ctx context.Context, session string) (wire.ApplyReply, error) {
	var none wire.ApplyReply
	env, st, err := e.verifiedSeal(session)
	if err != nil {
		return none, err
	}
	p := st.Predicate
	if p.Verdict != seal.Pass {
		return none, &hintError{fmt.Errorf("session %s: the seal says %s", session, p.Verdict), "proctor sessions show " + session}
	}
	if err := checkManifest(e.home, session, p.Manifest.SHA256); err != nil {
		return none, err
	}
	reply, err := e.launcher.Apply(ctx, session, launch.Sealed{
		Envelope: env, BaselineSHA256: p.Baseline.StreamSHA256, ManifestSHA256: p.Manifest.SHA256,
	})
	if errors.Is(err, launch.ErrUnknownWrites) {
		err = &failedError{&hintError{err, "proctor apply " + session}, exitIndeterminate}
	}
	return reply, err
}

// verifiedSeal reads a session's newest seal and verifies it with the public
// keys in the anchor.
func (e *engine) verifiedSeal(session string) ([]byte, seal.Statement, error) {
	var none seal.Statement
	f, err := os.Open(e.home.SealPath(session))
	if errors.Is(err, os.ErrNotExist) {
		return nil, none, &hintError{fmt.Errorf("session %s has no seal", session), "proctor sessions show " + session}
	}
	if err != nil {
		return nil, none, err
	}
	defer func() { _ = f.Close() }()
	env, err := readAtMost(f, seal.MaxSize)
	if err != nil {
		return nil, none, fmt.Errorf("seal of %s: %w", session, err)
	}
	anchor, err := e.home.Anchor(e.name)
	if err != nil {
		return nil, none, err
	}
	if anchor == nil {
		return nil, none, fmt.Errorf("seal of %s: no public keys are known for engine %s", session, e.name)
	}
	chain, err := keys.ParseChain(anchor.Chain)
	if err != nil {
		return nil, none, err
	}
	v, err := chain.Verifier(keys.DomainSeal, 0)
	if err != nil {
		return nil, none, err
	}
	payload, err := v.Verify(env, seal.PayloadType)
	if err != nil {
		return nil, none, fmt.Errorf("seal of %s: %w", session, err)
	}
	st, err := seal.Parse(payload)
	if err == nil && st.Predicate.Session != session {
		err = fmt.Errorf("seal of %s: it is about session %s", session, st.Predicate.Session)
	}
	return env, st, err
}

func checkManifest(h *home.Home, session, want string) error {
	f, err := os.Open(h.ManifestPath(session))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return fmt.Errorf("manifest of %s is not the one that was sealed", session)
	}
	return nil
}

// applyError is what stands in the way of an apply that answered, or nil.
func applyError(session string, r wire.ApplyReply) error {
	switch {
	case len(r.Conflicts) > 0:
		return &failedError{&hintError{
			fmt.Errorf("%s changed since the session began; nothing was written", display.Plural(int64(r.Total), "path")),
			"proctor diff " + session,
		}, exitRefused}
	case r.Error != "":
		err := &hintError{errors.New(r.Error), "proctor apply " + session}
		if len(r.Missing) > 0 || r.Written+r.Removed > 0 {
			return &failedError{err, exitIndeterminate}
		}
		return err
	}
	return nil
}

// applied says what an apply did.
func (a *app) applied(h *home.Home, session string, r wire.ApplyReply) error {
	for _, c := range r.Conflicts {
		a.complain(fmt.Sprintf("conflict: %s: %s", display.Escape(c.Path.Raw()), display.Escape(c.Reason)))
	}
	for _, m := range r.Missing {
		a.complain("not written: " + display.Escape(m.Raw()))
	}
	if err := applyError(session, r); err != nil {
		return err
	}
	st, err := h.State(session)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(a.out, "applied session %s to %s: %d written, %d removed\n", session, display.Escape(string(st.Product)), r.Written, r.Removed)
	for _, k := range r.Kept {
		_, _ = fmt.Fprintf(a.out, "kept, because it holds what the session did not know: %s\n", display.Escape(k.Raw()))
	}
	return nil
}

// applyDocument is apply's one document, whatever came of it.
type applyDocument struct {
	wire.ApplyReply
	Hint string `json:"hint"`
	Exit int    `json:"exit"`
}

func (a *app) applyDocument(session string, r wire.ApplyReply, err error) applyDocument {
	doc := applyDocument{ApplyReply: r}
	doc.Schema = "proctor/apply/v1"
	doc.Kept, doc.Conflicts, doc.Missing = append([]wire.Path{}, r.Kept...), append([]wire.Conflict{}, r.Conflicts...), append([]wire.Path{}, r.Missing...)
	if err == nil {
		err = applyError(session, r)
	}
	if err != nil {
		doc.Error, doc.Hint, doc.Exit = err.Error(), a.pasteable(hintOf(err)), exitOf(err)
	}
	return doc
}
