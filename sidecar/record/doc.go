// Package record is one session's append-only log of everything that was
// decided or observed.
//
// A row is PAYLOAD TAB MAC LF. The payload is one line of JSON; the MAC is the
// hex HMAC-SHA-256 over length-prefixed values: "proctor/record/v1", session,
// number, the MAC before (empty for the first row), payload. Every step signs
// its rows with its own subkey, so that serve can write nothing in the name of
// open or seal; a row names its step.
//
// A row is written before the answer that it is about leaves. It is made durable
// at every phase's end and, while Run runs, at most 100 ms later. The file's
// space is reserved when it is made; when it is used up, and after any failed
// write or sync, every further row is refused, so that what cannot be recorded
// cannot be granted. A small rest is kept for the rows that end phases.
//
// It defends against rows that were edited, dropped, swapped, cut or copied from
// another session; rows cut at the end are noticed only against a Head that was
// kept elsewhere. It does not defend against what a step writes in its own
// name: a lying serve signs its lies. A line torn by a crash is never repaired:
// the record stays as the crash left it, does not verify, and nothing passes.
//
//	w, err := record.Create(dir, rules, record.Config{Session: id, Step: "serve", Key: key})
//	...
//	if _, err := w.Append("granted", what); err != nil {
//		return refuse(err)
//	}
package record
