// Package consent is the one way in which a file that came with a product may
// change what Proctor does: read once, and used only if the operator approved
// exactly those bytes.
//
// It defends against files that a repository brings along, against one that
// changed since it was approved, and against one that is swapped between being
// judged and being used: the bytes that were judged are the bytes that are
// returned. It never records anything. Whoever consumes such a file goes through
// ReadAndGate; a test lists every place that opens files on the host.
//
//	data, decision := gate.ReadAndGate(ctx, "/home/me/site/proctor.yaml", consent.ProductPolicy)
//	if !decision.Allowed {
//		return decision // its Text, and the command that would allow it
//	}
package consent
