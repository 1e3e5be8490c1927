// Package ledger is control's append-only chain of every act of authority:
// init, rotate, open, seal, approve, deny and revoke.
//
// A directory holds three files. "ledger" has one line of JSON an act. "head"
// is an envelope over the control id, the number of acts, the size of their
// lines and the chain hash. "lock" is held by flock while an act is done.
//
// The chain hash starts as SHA-256 of "proctor/ledger/v1", a NUL byte and the
// control id, and goes on as
// SHA-256(hash before | SHA-256(line without its LF)). Every line repeats the
// hash before it as "prev", so that a change is found at its own act. In a
// compacted ledger the line of an act that no longer counts is
// {"seq":N,"dropped":"<SHA-256 of the line>"}; the chain hash stays the same,
// and the head signs which lines were dropped (the "dropped" hash: SHA-256 over
// the one before, the number in 8 bytes, big endian, and the digest; it starts
// as 32 zero bytes). Nothing writes compacted ledgers yet; they are read.
//
// An act is: lock, verify the head, append and sync the line, write and sync
// the new head beside the old one, rename it, sync the directory. Until the
// rename the state is the old one; bytes behind the size that the head signs
// are what a failed act left, are ignored, and the next act drops them and says
// so.
//
// It defends against every change of a ledger by who does not hold the key: a
// line edited, dropped, swapped or cut, a head of another domain or control.
// Against an older copy put back whole it defends only by an Anchor that the
// caller kept elsewhere, and within one Ledger value. It does not defend
// against a restore of both.
//
//	l, err := ledger.Open("/control/ledger", rules, ledger.Trust{ControlID: id, Verifier: v, Anchor: known})
//	...
//	state, err := l.View()
//	ok := err == nil && state.Approved(path, sha256.Sum256(content), time.Now())
package ledger
