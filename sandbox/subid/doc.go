// Package subid claims the subordinate user and group ids that containers run
// as, and leases them to sessions in blocks, so that no two sessions own each
// other's files.
//
// A claim is a pair of lines of our own in /etc/subuid and /etc/subgid, which
// keeps the ids from being given to somebody else later. It is refused where
// any line of these files, of /etc/passwd or of /etc/group has one of the ids.
// Users and groups that come from elsewhere (LDAP, systemd-homed) are not in
// these files and not noticed; the ids that Claim picks are those that
// systemd's allocation leaves to nobody.
//
// A lease is a file lock, and ends with the process that holds it. That the
// files of an ended session still belong to a block, only the caller knows:
// Lease asks.
//
//	r, err := subid.Claim(subid.HostFiles(), "proctor", subid.DefaultCount)
//	lease, err := subid.Pool{Dir: dir, Range: r}.Lease(inUse)
//	defer lease.Release()
package subid
