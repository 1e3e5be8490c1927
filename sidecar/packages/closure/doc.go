// Package closure resolves a package's whole dependency tree by npm's rules to
// identities, so that an operator can approve it at once.
//
// Versions and ranges are npm's as deps.dev/util/resolve and /semver know them;
// the versions themselves come from packages.Client, and nothing else is asked.
// Dependencies of every platform are members, as in a lock file: npm leaves them
// out when it installs, not when it resolves. Peer dependencies that are not
// optional are members, as since npm 7. What is bundled in a package's archive is
// part of that package.
//
// It defends against a tree that leads out of the registry (git, files, other
// addresses: refused by name) and against one without end (bounded in members,
// documents, bytes and time). It does not promise to place packages where npm
// does: what is approved is the set. Where a later npm chooses another version,
// that version is not approved, and the answer is a refusal.
//
//	members, err := closure.Resolve(ctx, client, identity)
package closure
