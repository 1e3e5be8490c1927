package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/proctor-project/proctor/sandbox/home"
	"github.com/proctor-project/proctor/sandbox/launch"
	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/seal"
)

// sessionsShow prints a session's verdict with every finding. It is what the
// seal says, and where there is none, what the launcher remembers.
func (a *app) sessionsShow(ctx context.Context, id string) error {
	h, st, err := a.known(id)
	if err != nil {
		return err
	}
	e, err := a.openEngine(ctx, h, engineOptions{name: st.Engine})
	if err != nil {
		return err
	}
	defer func() { _ = e.close() }()
	row := rowOf(h, st)
	if st.Seals == 0 {
		if a.asJSON {
			a.printJSON(struct {
				Schema string `json:"schema"`
				sessionRow
			}{"proctor/unsealed/v1", row})
			return nil
		}
		_, _ = fmt.Fprintf(a.out, "session    %s, %s, product %s\nseal       none\n", id, row.State, display.Escape(row.Product))
		return nil
	}
	_, statement, err := e.verifiedSeal(id)
	if err != nil {
		return err
	}
	r := launch.Result{Session: id, SealPath: h.SealPath(id)}
	if a.asJSON {
		a.printJSON(verdictDocument(r, statement))
		return nil
	}
	p := statement.Predicate
	_, _ = fmt.Fprintf(a.out, "session    %s, %s, product %s\n", id, row.State, display.Escape(row.Product))
	next := ""
	if p.Verdict == seal.Pass && !st.Applied {
		next = nextCommand(id, p.Verdict, st.Engine)
	}
	a.printVerdict(r, statement, next)
	for _, f := range p.Findings {
		if !f.Approved {
			a.showFinding(st, staged(h, id), f)
		}
	}
	a.printDecisions(p.Decisions)
	_, _ = fmt.Fprintln(a.out, verdictLine(p, exitOfVerdict(p.Verdict)))
	return nil
}

// printDecisions lists what the doors did, the refusals first.
func (a *app) printDecisions(all []seal.Decision) {
	for _, outcome := range []string{"refused", "asked", "allowed"} {
		for _, d := range all {
			if d.Outcome != outcome {
				continue
			}
			_, _ = fmt.Fprintf(a.out, "\n%s: %s: %s", d.Door, d.Outcome, d.What)
			if d.Reason != "" && d.Outcome == "refused" {
				_, _ = fmt.Fprintf(a.out, ": %s", display.Escape(d.Reason))
			}
			if d.Count > 1 {
				_, _ = fmt.Fprintf(a.out, " (%d times)", d.Count)
			}
		}
	}
	if len(all) > 0 {
		_, _ = fmt.Fprintln(a.out)
	}
}

// staged reports whether the session's copy of the product is still there.
func staged(h *home.Home, id string) bool {
	_, err := os.Lstat(h.Path("stages", id))
	return err == nil
}

// showFinding prints one finding with what can be done about it.
func (a *app) showFinding(st home.State, staged bool, f audit.Finding) {
	path := filepath.Join(string(st.Product), f.RawPath())
	_, _ = fmt.Fprintf(a.out, "\n%s: %s\n", display.Escape(path), findingText(f))
	if f.BaselineSHA256 != "" {
		_, _ = fmt.Fprintf(a.out, "  was      sha256:%s\n", f.BaselineSHA256)
	}
	if f.SHA256 != "" {
		_, _ = fmt.Fprintf(a.out, "  is       sha256:%s\n", f.SHA256)
	}
	for _, ref := range f.References {
		_, _ = fmt.Fprintf(a.out, "  refers   to %s\n", display.Escape(ref))
	}
	commands := remedies(st.Session, path, staged, f)
	if len(commands) == 0 {
		_, _ = fmt.Fprintf(a.out, "  remedy   %s\n", noRemedy(f))
	}
	for _, c := range commands {
		_, _ = fmt.Fprintf(a.out, "  %-8s %s\n", c.what, a.pasteable(c.line))
	}
}

// offer is a command that may help.
type offer struct{ what, line string }

// remedies are the commands that can work: to look at the content, and to
// approve exactly that.
func remedies(session, path string, staged bool, f audit.Finding) []offer {
	if f.Package != nil {
		return packageOffers(f.Package)
	}
	if !f.Approvable || !staged || f.Class == audit.ClassTree && f.Kind != audit.KindLockFile {
		return nil
	}
	approve := display.Command("proctor", "trust", "approve", path, "--session", session, "--expect-sha256", f.SHA256)
	if approve == "" {
		return nil
	}
	return []offer{{"review", display.Command("proctor", "trust", "show", path, "--session", session)}, {"remedy", approve}}
}

// noRemedy says why no command helps.
func noRemedy(f audit.Finding) string {
	if f.Package != nil {
		return packageAdvice(f.Package)
	}
	switch f.Class {
	case audit.ClassProtected:
		return "the policy protects this path; no approval covers it"
	case audit.ClassLimit, audit.ClassUnreadable:
		return "it could not be looked at; no approval covers it"
	}
	return "run the agent again without this change"
}
