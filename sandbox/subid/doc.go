// Package subid finds host ids that belong to nobody, and gives each session
// and each supervisor a block of them.
//
// It defends against two owners of one id: a range that overlaps an account, a
// group or somebody else's subordinate range is refused, and a block has one
// holder at a time, for as long as the directory that it was leased for exists.
// It does not defend against whoever can edit /etc/subuid.
//
//	r, err := subid.Claim(subid.Account{UID: 0, Etc: "/etc", Proc: "/proc/self"})
//	block, err := subid.Lease(ctx, dir, r, stage)
package subid
