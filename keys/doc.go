// Package keys holds the root key, derives every other key from it, and makes
// and checks the one signed envelope.
//
// A directory of root keys holds one file of 32 random bytes per epoch and the
// chain that publishes each epoch's public keys. Subkeys come from HKDF-SHA-256
// over the epoch's root key; the info is a list of length-prefixed values:
// purpose, domain, epoch, control id, session, step. Signing keys come in pairs:
// an HMAC key, bound to the session where there is one, and an Ed25519 key,
// which is the same for all sessions of an epoch, so that its public half can
// be published. The control id is derived from the first epoch's root key.
//
// An envelope is DSSE with exactly two signatures, HMAC first. A Verifier made
// from root keys demands both; one made from public keys demands the Ed25519
// signature and that the HMAC is there. A key is chosen among those that the
// Verifier holds, by its id; nothing inside an envelope is ever used as a key.
//
// It defends against forged, swapped and re-labelled signatures, against key
// files that another user could read or prepare, and against keys in logs: no
// type here prints, formats or marshals secret bytes, not even by reflection.
// It does not defend against whoever can read the process's memory; see Harden.
//
//	root, err := keys.OpenRoot("/keys/root", keys.Rules{Place: safedir.Mount})
//	if err != nil {
//		return err
//	}
//	signer, err := root.Signer(keys.DomainSeal, root.Current(), session)
package keys
