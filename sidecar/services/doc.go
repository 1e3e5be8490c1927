// Package services is the credentials' door: the agent asks for
// /SERVICE/path in plain HTTP on its loopback interface, and the door adds TLS
// and the secret that the policy names for that service.
//
// It defends the secret: what the agent sends in its place is dropped, no
// redirect is followed, and every answer is searched for the secret, header by
// header and byte by byte, in the spellings in which a server would echo it; what
// is found is struck out. Compressed answers and parts of answers are not asked
// for, because neither could be searched. It defends the service against what the
// policy did not name: other methods, other paths, other spellings of a path.
//
// It does not defend against a service that hands its caller the secret on
// purpose in another form, and does not judge what the agent asks the service.
//
//	d, err := services.New(services.Config{Services: all, Dialer: dialer, Row: row, Refused: refused})
//	err = d.Serve(ctx, listener)
package services
