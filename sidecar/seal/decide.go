package seal

import (
	"fmt"
	"sort"

	"github.com/proctor-project/proctor/sidecar/wire"
)

// Known is everything that the verdict is decided from.
type Known struct {
	// Findings counts the findings that are not approved; Reviews those that
	// the policy turns into failures.
	Findings int
	Reviews  int
	Checks   []Check
	// Problems are what could not be established; each alone rules out PASS.
	Problems []string
	// Trees before the checks and in the final walk, where there were checks.
	BeforeChecks, Final string
	// ReadInFull is false when the reader met a limit, something unreadable or
	// something that changed under it.
	ReadInFull bool
	// Observer is stdin or chain; a chain's results need the policy's consent.
	Observer     string
	ChainAllowed bool
}

// Passed judges one check's result. Only a process that ran to its own end with
// the expected status, as the engine says, within its limits, passed.
func Passed(p wire.Process, form string) Check {
	return Check{Process: p, Form: form, Passed: p.Outcome == "exited" && p.Exit == p.Expect}
}

// judged reports whether a check ran at all.
func judged(p wire.Process) bool {
	switch p.Outcome {
	case "exited", "signalled", "oom", "timeout", "overflow":
		return true
	}
	return false // start-failed, lost, stopped, and whatever else
}

// Decide is the verdict and why. What is established and bad comes first among
// the reasons; anything that could not be established makes it INDETERMINATE.
func Decide(k Known) (Verdict, []string) {
	var bad, unknown []string
	if k.Findings > 0 {
		bad = append(bad, plural(k.Findings, "finding is not approved", "findings are not approved"))
	}
	if k.Reviews > 0 {
		bad = append(bad, plural(k.Reviews, "review fails by the policy", "reviews fail by the policy"))
	}
	for _, c := range k.Checks {
		switch {
		case !judged(c.Process):
			unknown = append(unknown, fmt.Sprintf("check %s could not be run: %s", c.Name, c.Outcome))
		case Passed(c.Process, c.Form).Passed: // judged here again, whatever c.Passed says
		case c.Outcome == "exited":
			bad = append(bad, fmt.Sprintf("check %s failed: exit %d", c.Name, c.Exit))
		default:
			bad = append(bad, fmt.Sprintf("check %s failed: %s", c.Name, c.Outcome))
		}
		if c.Reported != "engine" && (k.Observer != "chain" || !k.ChainAllowed) {
			unknown = append(unknown, fmt.Sprintf("check %s was reported from inside, and the policy does not accept that", c.Name))
		}
	}
	if len(k.Checks) > 0 && k.ReadInFull && k.BeforeChecks != k.Final {
		unknown = append(unknown, "the product changed while the checks ran")
	}
	if !k.ReadInFull || k.Final == "" {
		unknown = append(unknown, "the product could not be read in full")
	}
	switch k.Observer {
	case "stdin":
	case "chain":
		if !k.ChainAllowed {
			unknown = append(unknown, "the session was observed from inside, and the policy does not accept that")
		}
	default:
		unknown = append(unknown, "the session had no observer")
	}
	problems := append([]string{}, k.Problems...)
	sort.Strings(problems)
	unknown = append(unknown, problems...)
	switch {
	case len(unknown) > 0:
		return Indeterminate, append(unknown, bad...)
	case len(bad) > 0:
		return Fail, bad
	}
	return Pass, []string{}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
