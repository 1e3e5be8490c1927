// Package audit decides what the changes to a product mean for the operator
// who is about to take them home.
//
// It has two halves that never run in one process with a secret between them.
// An Extractor runs in the reader, which holds no key: it parses chosen files of
// the hostile tree into bounded facts. Judge runs in the seal step: it merges
// the baseline's and the final tree's streams in one pass and sorts what changed
// into the classes trap, review, tree and protected.
//
// # What it defends against
//
// Files that run something on the operator's machine before anybody reads them:
// git hooks and git configuration, shell and editor hooks, install scripts,
// Python start-up files, setuid bits, also behind symbolic links, includes,
// nested repositories and git directories of another name. Unknown formats and
// unparsable files count as changed whole.
//
// # What it does not do
//
// It runs no program, git least of all. It knows the tools in its tables and no
// others: a tool that runs something on its own from a file with another name is
// ordinary content to it. It does not follow a hook or a script into the files
// that it runs in turn. Whether a test script that changed is a good one is for
// people: such changes are reviews.
//
// # Example
//
//	result, err := audit.Judge(audit.Input{
//		Baseline: product.NewDecoder(baseline, product.StreamLimits{}),
//		Final:    product.NewDecoder(final, product.StreamLimits{}),
//		Approved: store.Approved,
//	})
//	if err == nil && result.Unapproved() == 0 {
//		// PASS, as far as the audit goes
//	}
package audit
