// Package registry is the npm door: it speaks the registry's API to the agent's
// npm and npx, and has approved packages only.
//
// What a version is, its dependencies and programs, is read from the approved
// bytes where the cache has them, else from what the registry says of bytes of
// the same integrity; what it depends on has to be approved by itself. The bytes
// come from a content-addressed cache, and are hashed again each time: nobody has
// other bytes whole. A link leads back to the door. What is not approved is refused with the
// operator's remedy in the field of the answer that npm prints.
//
// The registry is asked for nothing but names of which something is approved, or
// that the policy allows: else an agent could send out what it knows as names.
//
// It defends against bytes that differ from the approved integrity, against a
// registry's document that names other bytes, another host or another package,
// and against npm's own configuration in a product: whatever that says, there is
// nothing else to reach. It does not judge what a package does once it runs.
//
//	d, err := registry.New(registry.Config{Registry: origin, Decide: decide, Named: named, Cache: cache, Row: row, Refused: refused})
//	err = d.Serve(ctx, listener)
package registry
