package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/proctor-project/proctor/sandbox/kubernetes"
	"github.com/proctor-project/proctor/sandbox/launch"
	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/display"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// shownFindings is how many findings the verdict block lists.
const shownFindings = 20

// conclude prints the verdict and ends with its status, after apply if that was
// asked for.
func (a *app) conclude(ctx context.Context, e *engine, r launch.Result, apply bool, word string) error {
	st, err := statement(r.Seal)
	if err != nil {
		return &failedError{err, exitIndeterminate}
	}
	p := st.Predicate
	code := exitOfVerdict(p.Verdict)
	apply = apply && p.Verdict == seal.Pass
	if a.asJSON {
		doc := verdictDocument(r, st)
		if apply {
			reply, err := e.apply(ctx, r.Session)
			applied := a.applyDocument(r.Session, reply, err)
			doc.Apply, code = &applied, applied.Exit
		}
		doc.Word = word
		a.printJSON(doc)
		return outcomeOf(code)
	}
	a.printVerdict(r, st, nextCommand(r.Session, p.Verdict, e.name))
	if apply {
		if err = a.applyTo(ctx, e, r.Session); err != nil {
			code = exitOf(err)
			err = &failedError{err, code}
		}
	}
	last := verdictLine(p, code)
	if err != nil {
		last += "; not applied"
	}
	if word != "" {
		last += "      " + word
	}
	_, _ = fmt.Fprintln(a.out, last)
	if err != nil {
		return err
	}
	return outcomeOf(code)
}

// statement reads a seal that this run itself received from its seal step.
func statement(envelope []byte) (seal.Statement, error) {
	payload, err := seal.Payload(envelope)
	if err != nil {
		return seal.Statement{}, err
	}
	return seal.Parse(payload)
}

func exitOfVerdict(v seal.Verdict) int {
	switch v {
	case seal.Pass:
		return exitOK
	case seal.Fail:
		return exitFail
	}
	return exitIndeterminate
}

// printVerdict prints the verdict block; next is the command that helps next.
func (a *app) printVerdict(r launch.Result, st seal.Statement, next string) {
	p := st.Predicate
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(a.out, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	open, approved := splitFindings(p.Findings)
	row("findings", "%d not approved, %d approved", len(open), len(approved))
	a.printFindings(open, "")
	a.printFindings(approved, ", approved")
	if len(p.Reviews) > 0 {
		row("reviews", "%d to look at", len(p.Reviews))
		for i, f := range p.Reviews {
			if i == shownFindings {
				_, _ = fmt.Fprintf(a.out, "  and %d more\n", len(p.Reviews)-i)
				break
			}
			_, _ = fmt.Fprintf(a.out, "  %-22s %-30s %s %s\n", f.Kind, display.Escape(orRoot(f.RawPath())), f.Status, display.Escape(f.Detail))
		}
	}
	row("checks", "%s", checksSummary(p.Checks))
	if p.Agent != nil {
		row("agent", "%-18s recorded; it does not decide the verdict", processText(p.Agent.Outcome, p.Agent.Exit))
	}
	if len(p.Decisions) > 0 {
		row("doors", "%-18s recorded; they do not decide the verdict", doorsText(p.Decisions))
	}
	row("boundary", "%s", boundaryText(p))
	if p.ProductPolicySHA256 != "" {
		row("policy", "sha256:%s, narrowed by the product's own, sha256:%s", p.PolicySHA256[:12], p.ProductPolicySHA256[:12])
	}
	if tree := st.SubjectDigest("tree"); tree != "" {
		text := "sha256:" + tree[:12]
		if len(p.Checks) > 0 && p.BeforeChecks == tree {
			text += "   unchanged by the checks"
		}
		row("product", "%s", text)
	}
	row("seal", "%s", display.Escape(r.SealPath))
	if next != "" {
		row("next", "%s", a.pasteable(next))
	}
}

// nextCommand is the last thing on its line, so that it can be pasted.
func nextCommand(session string, v seal.Verdict, engine string) string {
	switch {
	case v == seal.Pass && engine == kubernetes.Name:
		return "proctor apply " + session
	case v == seal.Pass:
		return "proctor diff " + session
	}
	return "proctor sessions show " + session
}

func splitFindings(all []audit.Finding) (open, approved []audit.Finding) {
	for _, f := range all {
		if f.Approved {
			approved = append(approved, f)
		} else {
			open = append(open, f)
		}
	}
	return open, approved
}

func findingText(f audit.Finding) string {
	text := string(f.Class)
	if f.Status != "" {
		text += ", " + string(f.Status)
	}
	if f.Detail != "" {
		text += ", " + display.Escape(f.Detail)
	}
	return text
}

func orRoot(path string) string {
	if path == "" {
		return "."
	}
	return path
}

func processText(outcome string, exit int) string {
	if outcome == "exited" {
		return fmt.Sprintf("exit %d", exit)
	}
	return outcome
}

func (a *app) printFindings(all []audit.Finding, word string) {
	for i, f := range all {
		if i == shownFindings {
			_, _ = fmt.Fprintf(a.out, "  and %d more%s\n", len(all)-i, word)
			break
		}
		if f.Package != nil {
			_, _ = fmt.Fprintf(a.out, "  %-22s %-30s %s%s\n", f.Kind, display.Escape(f.Detail), packagePlace(f), word)
			continue
		}
		_, _ = fmt.Fprintf(a.out, "  %-22s %-30s %s%s\n", f.Kind, display.Escape(orRoot(f.RawPath())), findingText(f), word)
	}
}

func checksSummary(all []seal.Check) string {
	if len(all) == 0 {
		return "none"
	}
	passed, parts := 0, make([]string, 0, len(all))
	for _, c := range all {
		if c.Passed {
			passed++
		}
		parts = append(parts, c.Name+": "+processText(c.Outcome, c.Exit))
	}
	return fmt.Sprintf("%d of %d passed       %s", passed, len(all), strings.Join(parts, ", "))
}

// doorsText sums up what the doors did.
func doorsText(all []seal.Decision) string {
	sums := map[string]int{}
	for _, d := range all {
		sums[d.Outcome] += d.Count
	}
	parts := []string{}
	for _, outcome := range []string{"allowed", "refused", "asked"} {
		if sums[outcome] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", outcome, display.Count(int64(sums[outcome]))))
		}
	}
	return strings.Join(parts, ", ")
}

func boundaryText(p seal.Predicate) string {
	text := strings.TrimRight(fmt.Sprintf("%s, %s %s", p.Engine.Name, p.Engine.Runtime, p.Engine.RuntimeVersion), ", ")
	if p.Engine.Network != "" {
		text += "   network " + p.Engine.Network
	}
	for _, c := range p.Containers {
		if c.Network != "" {
			text += fmt.Sprintf("   %s has network %s", c.Role, c.Network)
		}
	}
	if open := openBelow(p.Containers); len(open) > 0 {
		text += "   what is mounted below a read-only mount may be written in " + strings.Join(open, ", ")
	}
	if len(p.Waivers) > 0 {
		text += "   waived: " + strings.Join(p.Waivers, ", ")
	}
	return text
}

// openBelow are the containers with a mount that is read-only by itself alone.
func openBelow(all []wire.Container) []string {
	var roles []string
	for _, c := range all {
		if slices.ContainsFunc(c.Mounts, func(m wire.Mount) bool { return m.OpenBelow }) && !slices.Contains(roles, c.Role) {
			roles = append(roles, c.Role)
		}
	}
	return roles
}

// verdictLine is the last line: the outcome, its status and why, with every
// waiver.
func verdictLine(p seal.Predicate, code int) string {
	why := strings.Join(p.Reasons, "; ")
	if p.Verdict == seal.Pass {
		found := "0 findings"
		if n := len(p.Findings); n > 0 { // each of them approved, or it were no PASS
			found = display.Plural(int64(n), "approved finding")
		}
		why = fmt.Sprintf("%s, %s, %s", display.Plural(p.Manifest.Entries, "entry"), display.Plural(int64(len(p.Checks)), "check"), found)
		why = strings.Replace(why, "entrys", "entries", 1)
	}
	if len(p.Waivers) > 0 {
		why += "; waived: " + strings.Join(p.Waivers, ", ")
	}
	return fmt.Sprintf("%s (exit %d): %s", p.Verdict, code, display.Escape(why))
}

type runDocument struct {
	Schema   string          `json:"schema"`
	Session  string          `json:"session"`
	Verdict  seal.Verdict    `json:"verdict"`
	Exit     int             `json:"exit"`
	Reasons  []string        `json:"reasons"`
	SealPath string          `json:"seal_path"`
	Subjects []seal.Subject  `json:"subjects"`
	Findings []audit.Finding `json:"findings"`
	Reviews  []audit.Review  `json:"reviews"`
	Checks   []seal.Check    `json:"checks"`
	Waivers  []string        `json:"waivers"`
	Problems []string        `json:"problems"`
	// Decisions are the doors', as serve recorded them: its word.
	Decisions []seal.Decision `json:"decisions"`
	// Word is what was shown before an agent got the terminal.
	Word string `json:"word,omitempty"`
	// Apply is what --apply did; the process ends with its status.
	Apply *applyDocument `json:"apply,omitempty"`
}

func verdictDocument(r launch.Result, s seal.Statement) runDocument {
	p := s.Predicate
	return runDocument{
		Schema: "proctor/run/v1", Session: r.Session, Verdict: p.Verdict, Exit: exitOfVerdict(p.Verdict),
		Reasons: p.Reasons, SealPath: r.SealPath, Subjects: s.Subject, Findings: p.Findings, Reviews: p.Reviews,
		Checks: p.Checks, Waivers: p.Waivers, Problems: p.Problems, Decisions: p.Decisions,
	}
}
