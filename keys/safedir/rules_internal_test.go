package safedir

import (
	"testing"

	"golang.org/x/sys/unix"
)

// The rules on owners, for a process that cannot chown.
func TestK1OwnersAndModes(t *testing.T) {
	me := identity{uid: 1000, gid: 1000}
	st := func(mode, uid, gid uint32) *unix.Stat_t {
		return &unix.Stat_t{Mode: mode, Uid: uid, Gid: gid, Nlink: 1}
	}
	dir, file := uint32(unix.S_IFDIR), uint32(unix.S_IFREG)
	for name, c := range map[string]struct {
		err  error
		safe bool
	}{
		"parent of root":                  {checkParent(st(dir|0o755, 0, 0), me), true},
		"parent of mine":                  {checkParent(st(dir|0o755, 1000, 1000), me), true},
		"parent of another":               {checkParent(st(dir|0o755, 1001, 1000), me), false},
		"parent unmapped":                 {checkParent(st(dir|0o755, 65534, 65534), me), false},
		"parent sticky, root's":           {checkParent(st(dir|0o1777, 0, 0), me), true},
		"parent sticky, another's":        {checkParent(st(dir|0o1777, 1001, 0), me), false},
		"user-private group":              {checkLast(st(dir|0o770, 1000, 1000), me), true},
		"shared group":                    {checkLast(st(dir|0o770, 1000, 100), me), false},
		"root's parent, group can write":  {checkParent(st(dir|0o775, 0, 1000), me), false},
		"last of root":                    {checkLast(st(dir|0o700, 0, 0), me), false},
		"last, sticky is no excuse":       {checkLast(st(dir|0o1777, 1000, 1000), me), false},
		"key of root on the host":         {checkFile(st(file|0o600, 0, 0), me, Host), false},
		"key of root, 0440, secret mount": {checkFile(st(file|0o440, 0, 1000), me, SecretMount), true},
		"key of root, 0444, secret mount": {checkFile(st(file|0o444, 0, 1000), me, SecretMount), false},
		"key of root, 0460, secret mount": {checkFile(st(file|0o460, 0, 1000), me, SecretMount), false},
		"key of another, secret mount":    {checkFile(st(file|0o400, 7, 1000), me, SecretMount), false},
		"key of root, supervisor's mount": {checkFile(st(file|0o400, 0, 1000), me, Mount), false},
		"key of mine, supervisor's mount": {checkFile(st(file|0o600, 1000, 1000), me, Mount), true},
		"key readable by my own group":    {checkFile(st(file|0o640, 1000, 1000), me, Mount), false},
	} {
		if (c.err == nil) != c.safe {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}
