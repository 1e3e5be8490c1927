// Package policy reads the operator's policy: what the agent is run in, which
// checks judge its product, what the audit holds against it, and what the
// operator agreed to do without.
//
// Parse is strict. It takes one YAML document of plain scalars, lists and
// mappings; it refuses anchors, aliases, merge keys, tags, duplicate and unknown
// fields, scalars that YAML 1.1 and 1.2 read differently, and every value out of
// its range. All problems are reported at once, each with its line. A Policy
// that Parse returned holds only valid values, defaults filled in.
//
// RefuseSources is the policy's other half: the host paths that it names are
// judged once they are resolved, before anything is made from them.
//
// It defends against a policy that says less than its author believes, and
// against a mount that hands the boundary away. It does not defend against an
// operator who weakens the policy by name, and it does not decide whether an
// engine can give what is asked.
//
//	p, err := policy.Parse("policy.yaml", data)
//	if err != nil {
//		return err // one line a problem: policy.yaml:14: checks[1].timeout: …
//	}
//	fmt.Println(p.Agent.Timeout, p.Digest())
//
// docs/policy.md explains each field, docs/policy.schema.json is the JSON Schema.
package policy
