package main

import (
	"context"
	"fmt"
	"path/filepath"

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
		next = nextCommand(id, p.Verdict)
	}
	a.printVerdict(r, statement, next)
	for _, f := range p.Findings {
		if !f.Approved {
			a.showFinding(string(st.Product), f)
		}
	}
	_, _ = fmt.Fprintln(a.out, verdictLine(p, exitOfVerdict(p.Verdict)))
	return nil
}

// showFinding prints one finding with what can be done about it.
func (a *app) showFinding(product string, f audit.Finding) {
	path := filepath.Join(product, f.RawPath())
	_, _ = fmt.Fprintf(a.out, "\n%s: %s\n", display.Escape(path), findingText(f))
	if f.BaselineSHA256 != "" {
		_, _ = fmt.Fprintf(a.out, "  was      sha256:%s\n", f.BaselineSHA256)
	}
	if f.SHA256 != "" {
		_, _ = fmt.Fprintf(a.out, "  is       sha256:%s\n", f.SHA256)
	}
	_, _ = fmt.Fprintf(a.out, "  remedy   %s\n", remedy(f))
}

// remedy says what can be done about a finding in this version: only what can
// work.
func remedy(f audit.Finding) string {
	switch f.Class {
	case audit.ClassProtected:
		return "the policy protects this path; no approval covers it"
	case audit.ClassLimit, audit.ClassUnreadable:
		return "it could not be looked at; no approval covers it"
	}
	return "run the agent again without this change"
}
