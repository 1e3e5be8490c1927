// Package hosts reads the names of hosts as an agent or the operator writes
// them, matches them with what is listed, and tells public addresses from those
// that lead back inside.
//
// It defends against a name that means one host to whoever checks it and another
// to whoever dials it: odd spellings of an IPv4 address (octal, hexadecimal, one
// number, fewer parts), a trailing dot, a name that is not plain ASCII, an IPv6
// address that carries an IPv4 one. Each is refused, never rewritten. What looks
// alike to a person (punycode twins) is told apart by its bytes. It does not
// resolve names: whoever does holds every address against Reserved, and dials
// the address that was checked.
//
//	t, err := hosts.Parse("api.example.com:443")
//	p, err := hosts.ParsePattern("*.example.com:443")
//	ok := p.Matches(t)
package hosts
