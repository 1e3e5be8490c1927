// Package trust answers whether the operator approved some content for a path.
//
// A record is about one absolute path and the SHA-256 of a content. Approved
// judges the bytes that its caller holds and is about to use: it never reads
// the path again, so swapping the file after it was read changes nothing. It
// answers false whatever goes wrong. The operator's acts live in the ledger and
// fail loudly; see sidecar/ledger.
//
// It defends against changed content, stale and denied records, records of
// other paths, and a ledger that does not verify. It does not know what content
// does when it runs; References only names what a file plainly refers to.
//
//	store := trust.Store{View: ledger.View}
//	if store.Approved("/home/me/site/.envrc", content) { … }
package trust
