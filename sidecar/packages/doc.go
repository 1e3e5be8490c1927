// Package packages says which exact package an npm spec means, and whether it
// may be used.
//
// ParseSpec, the Client and Document turn a spec into an Identity (registry,
// name, version, integrity) without running anything, or into an *Error with one
// of a closed list of reasons. Decide answers a question about an identity in a
// fixed order over the policy's rules and the operator's records. ParseLock reads
// a package-lock.json, Archive a package's tarball.
//
// It defends against specs, registry documents, lock files and archives that
// mean something else to npm than to their reader: ranges, tags, aliases and
// files in a version's place, duplicate keys, entries about another package,
// redirects, answers without end. It reads no environment variable, no .npmrc
// and no file of a product.
//
// It does not defend against a registry that lies about what a version's bytes
// are before an operator approved them, and it does not judge what a package
// does.
//
//	c, err := packages.NewClient(packages.Config{Registry: policy.Packages.Registry})
//	...
//	id, err := c.Resolve(ctx, "left-pad@1.3.0")
//	d := packages.Decide(packages.Question{Spec: "left-pad@1.3.0", Identity: id, Err: err, Argv: argv}, policy, records)
package packages
