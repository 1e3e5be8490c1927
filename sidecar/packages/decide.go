package packages

import "fmt"

// Rules is what the policy says about package names.
type Rules interface {
	// PackageDenied and PackageAllowed return the pattern that covers the name.
	PackageDenied(name string) (pattern string, ok bool)
	PackageAllowed(name string) (pattern string, ok bool)
}

// Records is what the operator decided. An error means that it could not be
// read, and refuses.
type Records interface {
	Denied(registry, name, version string) (bool, error)
	Approved(Identity) (bool, error)
}

// Use is what is about to happen to a package. The zero value is the strict one.
type Use int

// The uses.
const (
	Run   Use = iota // a command runs it: the command must be exactly its version's
	Fetch            // its bytes are fetched; nothing runs
)

// Question is about one use of one package.
type Question struct {
	Spec     string   // as it was asked for
	Identity Identity // what it was resolved to
	Err      error    // why it was not
	Use      Use
	Argv     []string // for Run: the whole command
}

// Decision is an answer. Rule is the policy's pattern, where one decided.
type Decision struct {
	Allowed bool
	Reason  Reason
	Rule    string
	Err     error // what the refusal comes from; may be nil
}

// Decide answers in a fixed order: the policy denies; no identity; the command
// is not exactly name@version; a recorded denial; a recorded approval; the
// policy allows; not approved. Whatever goes wrong on the way refuses.
func Decide(q Question, rules Rules, records Records) (d Decision) {
	defer func() {
		if p := recover(); p != nil {
			d = Decision{Reason: Broken, Err: fmt.Errorf("decide: %v", p)}
		}
	}()
	if d, denied := deniedByName(q, rules); denied {
		return d
	}
	if q.Err != nil || q.Identity.Check() != nil {
		return Decision{Reason: NoIdentity, Err: q.Err}
	}
	id := q.Identity
	if q.Use != Fetch && !Pinned(q.Argv, id.Spec()) {
		return Decision{Reason: NotPinned}
	}
	denied, err := records.Denied(id.Registry, id.Name, id.Version)
	if err != nil {
		return Decision{Reason: Broken, Err: err}
	}
	if denied {
		return Decision{Reason: DeniedByRecord}
	}
	approved, err := records.Approved(id)
	if err != nil {
		return Decision{Reason: Broken, Err: err}
	}
	if approved {
		return Decision{Allowed: true, Reason: ApprovedRecord}
	}
	if rule, ok := rules.PackageAllowed(id.Name); ok {
		return Decision{Allowed: true, Reason: AllowedByPolicy, Rule: rule}
	}
	return Decision{Reason: NotApproved}
}

// deniedByName asks the policy about every name that the question holds.
func deniedByName(q Question, rules Rules) (Decision, bool) {
	names := []string{q.Identity.Name}
	if s, err := ParseSpec(q.Spec); err == nil {
		names = append(names, s.Name)
	}
	for _, name := range names {
		if rule, denied := rules.PackageDenied(name); denied && name != "" {
			return Decision{Reason: DeniedByPolicy, Rule: rule}, true
		}
	}
	return Decision{}, false
}

// Pinned reports whether the command runs exactly the spec: the program is npx,
// and its first argument beside the four flags that change nothing is the spec.
func Pinned(argv []string, spec string) bool {
	if len(argv) == 0 || argv[0] != "npx" {
		return false
	}
	for _, a := range argv[1:] {
		switch a {
		case "-y", "--yes", "-q", "--quiet":
			continue
		}
		return a == spec
	}
	return false
}
