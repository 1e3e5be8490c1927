package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"
)

// ProductFile is the name, in a product's root, of the policy that it brings
// along.
const ProductFile = "proctor.yaml"

// Product is the policy that a product brings along: it can only narrow the
// operator's, and counts only once its content is approved.
type Product struct {
	limits    Limits
	output    int64
	timeout   time.Duration
	exclude   []Glob
	protected []Glob
	classes   Classes
	audit     Audit
	packages  Packages
	egress    Egress
	digest    [sha256.Size]byte
}

// Digest is the lower-case hexadecimal SHA-256 of the file's bytes.
func (p *Product) Digest() string { return hex.EncodeToString(p.digest[:]) }

// ParseProduct reads a product's policy: the fields of a policy that can narrow,
// and no other. Errors are as Parse's.
func ParseProduct(name string, data []byte) (*Product, error) {
	root, err := document(data)
	if err != nil {
		return nil, &Error{File: name, Problems: []Problem{syntaxProblem(err)}}
	}
	p := &Product{digest: sha256.Sum256(data), classes: Classes{Review: HandleList, Tree: HandleList}}
	r := &reader{lines: map[string]int{}}
	r.product(root, p)
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
		return nil, &Error{File: name, Problems: r.problems}
	}
	return p, nil
}

// Narrow returns the policy as a product's own narrows it. What either forbids is
// forbidden; what the product allows, the operator must allow, too. A limit is the
// smaller of the operator's and what the product sets. A list that is empty says
// nothing.
func (p *Policy) Narrow(by *Product) *Policy {
	n := *p
	n.Agent.Limits = Limits{
		Memory: lower(p.Agent.Limits.Memory, by.limits.Memory), PIDs: lower(p.Agent.Limits.PIDs, by.limits.PIDs),
		MilliCPUs: lower(p.Agent.Limits.MilliCPUs, by.limits.MilliCPUs), OpenFiles: lower(p.Agent.Limits.OpenFiles, by.limits.OpenFiles),
	}
	n.Agent.Output, n.Agent.Timeout = lower(p.Agent.Output, by.output), lower(p.Agent.Timeout, by.timeout)
	n.Audit = Audit{
		MaxEntries: lower(p.Audit.MaxEntries, by.audit.MaxEntries), MaxFileSize: lower(p.Audit.MaxFileSize, by.audit.MaxFileSize),
		MaxTotalSize: lower(p.Audit.MaxTotalSize, by.audit.MaxTotalSize), Timeout: lower(p.Audit.Timeout, by.audit.Timeout),
	}
	n.Classes = Classes{Review: stricter(p.Classes.Review, by.classes.Review), Tree: stricter(p.Classes.Tree, by.classes.Tree)}
	n.Stage.Exclude = slices.Concat(p.Stage.Exclude, by.exclude)
	n.Protected = slices.Concat(p.Protected, by.protected)
	n.Packages.Deny = slices.Concat(p.Packages.Deny, by.packages.Deny)
	n.Packages.Also = by.packages.Allow
	n.Egress.Deny = slices.Concat(p.Egress.Deny, by.egress.Deny)
	n.Egress.Also = by.egress.Allow
	return &n
}

// lower is the smaller of the operator's limit and one that the product sets; 0
// sets none.
func lower[T cmp.Ordered](operators, products T) T {
	var none T
	if products == none {
		return operators
	}
	return min(operators, products)
}

func stricter(a, b Handling) Handling {
	if a == HandleFail || b == HandleFail {
		return HandleFail
	}
	return HandleList
}
