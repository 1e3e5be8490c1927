// Package home is the launcher's own place on the host: which ids the
// supervisor and the sessions have, each session's lock and state, the anchors,
// the stages, and the sealed verdicts that came back.
//
// Nothing here is believed by the supervisor. The anchor is what lets the
// launcher notice an older ledger that was put back; a session's lock is what
// lets the next start tell a running session from a dead one. It does not
// defend against the operator, whose directory it is.
//
//	h, err := home.Open("/home/me/.local/state/proctor")
//	s, err := h.NewSession(ctx)
package home
