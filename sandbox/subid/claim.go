package subid

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// Range is a run of ids, as users and as groups.
type Range struct{ First, Count uint32 }

func (r Range) overlaps(o Range) bool {
	return uint64(r.First) < uint64(o.First)+uint64(o.Count) && uint64(o.First) < uint64(r.First)+uint64(r.Count)
}

func (r Range) within(o Range) bool {
	return r.First >= o.First && uint64(r.First)+uint64(r.Count) <= uint64(o.First)+uint64(o.Count)
}

const (
	// owner of the lines that root's claim writes. No account can have this name,
	// and so newuidmap gives root's ids to nobody.
	owner = "@proctor"
	// claimed is how many ids one host claims: 4,096 blocks.
	claimed = 65536
	// lowest is where root's claim looks first: above what accounts, containers
	// and distributions' own ranges use.
	lowest = 1 << 29
)

// ErrNone says that there are no subordinate ids to be had here.
var ErrNone = errors.New("no subordinate ids")

// Account is who claims, and the files that say which ids are taken.
type Account struct {
	UID  uint32
	Name string
	Etc  string // directory of passwd, group, subuid and subgid
	Proc string // directory of uid_map and gid_map
}

// Claim returns the ids of the account's sessions. Root's are written as lines
// of their own where there are none yet; an ordinary user's are the ones that
// the administrator gave. A range that overlaps another owner's, an account or
// a group is refused.
func Claim(a Account) (Range, error) {
	lock := flock.New(filepath.Join(a.Etc, ".proctor-subid.lock"))
	if a.UID == 0 {
		if err := lock.Lock(); err != nil {
			return Range{}, fmt.Errorf("claim subordinate ids: %w", err)
		}
		defer func() { _ = lock.Unlock() }()
	}
	t, err := a.taken()
	if err != nil {
		return Range{}, fmt.Errorf("claim subordinate ids: %w", err)
	}
	names := []string{a.Name, strconv.FormatUint(uint64(a.UID), 10)}
	if a.UID == 0 {
		names = []string{owner}
	}
	if r, ok := t.given(names); ok {
		if err := t.free(r, names); err != nil {
			return Range{}, fmt.Errorf("claim subordinate ids: %w", err)
		}
		return r, nil
	}
	if a.UID != 0 {
		return Range{}, ErrNone
	}
	for first := uint64(lowest); first+claimed < 1<<32-1; first += claimed {
		r := Range{uint32(first), claimed}
		if t.free(r, nil) == nil {
			return r, a.write(r)
		}
	}
	// A host that is itself in a user namespace has few ids.
	for _, m := range t.mapped {
		for first := uint64(m.First) + uint64(m.Count)/2; first+1024 <= uint64(m.First)+uint64(m.Count); first += 1024 {
			r := Range{uint32(first), 1024}
			if t.free(r, nil) == nil {
				return r, a.write(r)
			}
		}
	}
	return Range{}, ErrNone
}

// taken is everything that owns ids.
type taken struct {
	subuid, subgid []entry
	ids            []uint32
	mapped         []Range
}

func (a Account) taken() (taken, error) {
	var t taken
	var errs [6]error
	var uids, gids []uint32
	var gidMap []Range
	t.subuid, errs[0] = readFile(filepath.Join(a.Etc, "subuid"), parseEntries)
	t.subgid, errs[1] = readFile(filepath.Join(a.Etc, "subgid"), parseEntries)
	uids, errs[2] = readFile(filepath.Join(a.Etc, "passwd"), parseIDs)
	gids, errs[3] = readFile(filepath.Join(a.Etc, "group"), parseIDs)
	t.mapped, errs[4] = readFile(filepath.Join(a.Proc, "uid_map"), parseMap)
	gidMap, errs[5] = readFile(filepath.Join(a.Proc, "gid_map"), parseMap)
	t.ids = append(uids, gids...)
	if len(gidMap) < len(t.mapped) {
		t.mapped = gidMap
	}
	return t, errors.Join(errs[:]...)
}

// given is the first range that both files give to one of the names.
func (t taken) given(names []string) (Range, bool) {
	for _, u := range t.subuid {
		if !isOne(u.owner, names) || u.Count < 2*BlockSize {
			continue
		}
		for _, g := range t.subgid {
			if isOne(g.owner, names) && g.Range == u.Range {
				return u.Range, true
			}
		}
	}
	return Range{}, false
}

func isOne(s string, names []string) bool {
	for _, n := range names {
		if s == n {
			return true
		}
	}
	return false
}

// free refuses a range that somebody else has a part of.
func (t taken) free(r Range, mine []string) error {
	for _, all := range [][]entry{t.subuid, t.subgid} {
		for _, e := range all {
			if e.overlaps(r) && !isOne(e.owner, mine) {
				return fmt.Errorf("range %d:%d overlaps the range of %q", r.First, r.Count, e.owner)
			}
		}
	}
	for _, id := range t.ids {
		if r.overlaps(Range{id, 1}) {
			return fmt.Errorf("range %d:%d holds the id %d of an account or group", r.First, r.Count, id)
		}
	}
	for _, m := range t.mapped {
		if r.within(m) {
			return nil
		}
	}
	return fmt.Errorf("range %d:%d does not exist in this user namespace", r.First, r.Count)
}

// write adds root's lines, to both files or, after an error, to none that counts:
// a range is given only where both files agree.
func (a Account) write(r Range) error {
	line := fmt.Sprintf("%s:%d:%d\n", owner, r.First, r.Count)
	for _, name := range []string{"subuid", "subgid"} {
		path := filepath.Join(a.Etc, name)
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if n := len(old); n > 0 && old[n-1] != '\n' {
			old = append(old, '\n')
		}
		if err := renameio.WriteFile(path, append(old, line...), 0o644, renameio.IgnoreUmask()); err != nil {
			return fmt.Errorf("claim subordinate ids: %w", err)
		}
	}
	return nil
}
