package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/proctor-project/proctor/sidecar/hosts"
)

// Act is the operator's last word on one pattern, from the ledger.
type Act struct {
	Pattern hosts.Pattern
	Denied  bool
	Expires time.Time // zero: never
}

// Rules decide which hosts are reached.
type Rules struct {
	Allow []hosts.Pattern // the policy's
	Deny  []hosts.Pattern // the policy's, before everything else
	Also  []hosts.Pattern // the product's own list, that Allow is held against; empty is all
	// Acts returns the ledger's acts as they stand now; an error refuses.
	Acts func() ([]Act, error)
	Now  func() time.Time
}

// Decision is the answer for one target. The zero value refuses.
type Decision struct {
	Allowed bool
	Denied  bool     // refused by a denial, not for want of an approval
	By      string   // policy or ledger, where it is allowed
	Reason  string   // where it is not
	Remedy  []string // the operator's command, where one can help
	Ask     []string // the agent's command, where asking can help
}

// Decide judges a target. A denial, of the policy or of the operator, comes
// before every approval; what is listed nowhere is refused.
func (r Rules) Decide(t hosts.Target) Decision {
	if matchesAny(r.Deny, t) {
		return Decision{Denied: true, Reason: "is denied by the policy"}
	}
	acts, err := r.Acts()
	if err != nil {
		return Decision{Reason: "the ledger cannot be read: " + err.Error()}
	}
	allowed := Decision{Reason: "is not allowed", Remedy: allow(t), Ask: ask(t)}
	now := r.Now()
	for _, a := range acts {
		switch {
		case !a.Pattern.Matches(t):
		case a.Denied && expired(a, now): // a denial that ran out is none
		case a.Denied:
			return denied(a.Pattern, t)
		case expired(a, now):
			if !allowed.Allowed {
				allowed.Reason = fmt.Sprintf("is allowed until %s only", a.Expires.UTC().Format(time.RFC3339))
			}
		default:
			allowed = Decision{Allowed: true, By: "ledger"}
		}
	}
	if matchesAny(r.Allow, t) && (len(r.Also) == 0 || matchesAny(r.Also, t)) {
		return Decision{Allowed: true, By: "policy"}
	}
	return allowed
}

func matchesAny(all []hosts.Pattern, t hosts.Target) bool {
	return slices.ContainsFunc(all, func(p hosts.Pattern) bool { return p.Matches(t) })
}

func expired(a Act, now time.Time) bool { return !a.Expires.IsZero() && !now.Before(a.Expires) }

// denied offers what would help: a word on the very target replaces the denial,
// a denial of more than it has to be taken back.
func denied(p hosts.Pattern, t hosts.Target) Decision {
	d := Decision{Denied: true, Reason: "is denied by the operator"}
	if p.String() == t.String() {
		d.Remedy = allow(t)
		return d
	}
	d.Reason += " with " + p.String()
	d.Remedy = []string{"proctor", "revoke-host", p.String()}
	return d
}

func allow(t hosts.Target) []string { return []string{"proctor", "allow-host", t.String()} }

func ask(t hosts.Target) []string { return []string{"proctor-agent", "request", "host", t.String()} }

// address judges what a listed name leads to: a public address that is not
// denied, or one that is listed itself.
func (r Rules) address(a netip.Addr, port int) Decision {
	why := hosts.Reserved(a)
	t, err := hosts.New(a.String(), port)
	if err != nil {
		return Decision{Reason: fmt.Sprintf("leads to %s (%s)", a, why)}
	}
	d := r.Decide(t)
	switch {
	case d.Denied:
		return Decision{Denied: true, Reason: fmt.Sprintf("leads to %s, which %s", a, d.Reason), Remedy: d.Remedy}
	case d.Allowed, why == "":
		return Decision{Allowed: true}
	}
	return Decision{Reason: fmt.Sprintf("leads to %s (%s), which is not allowed itself", a, why), Remedy: allow(t), Ask: ask(t)}
}
