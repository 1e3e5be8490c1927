// Package egress is the proxy door: the agent's only way to hosts outside, by
// CONNECT and by plain HTTP.
//
// It decides by host and port, resolves the name itself, holds every address
// against what is reserved, and dials the very address that it checked; inside
// a CONNECT tunnel only TLS passes, and only if its ClientHello names the host
// that was asked for. Everything has a limit and a deadline, and one slow client
// holds nobody else.
//
// It defends against reaching what is not listed: by another spelling, by a
// name that leads back inside (DNS rebinding), by another port, by a tunnel that
// speaks to another host than it was opened for. It does not see into TLS: what
// is sent to a listed host, and which of the names behind one address an
// encrypted request is for, is between the agent and that host.
//
//	p, err := egress.New(egress.Config{Rules: rules, Dialer: dialer, Row: row, Refused: refused})
//	err = p.Serve(ctx, listener)
package egress
