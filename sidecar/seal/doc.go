// Package seal is the signed verdict: an in-toto statement over the product's
// final bytes, how it is decided, and how anybody verifies it offline.
//
// It defends against a verdict that says more than was established: Decide is
// one pure function from what is known to PASS, FAIL or INDETERMINATE, and
// whatever could not be established is never a PASS. Verification trusts a
// public key that the verifier brings, never one that is found in the seal. It
// does not defend against the holder of the root key.
//
//	verdict, reasons := seal.Decide(known)
//	payload, err := seal.Build(predicate)
//	rows, outcome := seal.Verify(seal.Options{Seal: envelope, Manifest: manifest, Keys: chain})
package seal
