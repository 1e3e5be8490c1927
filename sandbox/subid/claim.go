package subid

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
)

// DefaultCount is how many ids are claimed: 4,096 blocks.
const DefaultCount = 65536

// The ids that Claim picks from. systemd's table of users and groups has
// 1879048192 to 2147352575 as unused: above its containers, below the first id
// that is negative as a 32-bit number.
const (
	pickFirst = 1879048192
	pickEnd   = 2147352576
)

// ErrNone says that an owner has no subordinate ids.
var ErrNone = errors.New("no subordinate ids")

// Files are the files that name ids.
type Files struct{ SubUID, SubGID, Passwd, Group string }

// HostFiles are the host's own.
func HostFiles() Files {
	return Files{SubUID: "/etc/subuid", SubGID: "/etc/subgid", Passwd: "/etc/passwd", Group: "/etc/group"}
}

// taken is everything that has ids already.
type taken struct {
	subUID, subGID   []Entry
	uidText, gidText string
	accounts         []uint32
}

func (f Files) read() (taken, error) {
	var t taken
	var err error
	if t.uidText, err = readText(f.SubUID); err != nil {
		return t, err
	}
	if t.gidText, err = readText(f.SubGID); err != nil {
		return t, err
	}
	if t.subUID, err = ParseEntries(t.uidText); err != nil {
		return t, fmt.Errorf("%s: %w", f.SubUID, err)
	}
	if t.subGID, err = ParseEntries(t.gidText); err != nil {
		return t, fmt.Errorf("%s: %w", f.SubGID, err)
	}
	passwd, err := readText(f.Passwd)
	if err != nil {
		return t, err
	}
	group, err := readText(f.Group)
	if err != nil {
		return t, err
	}
	t.accounts = append(parseAccounts(passwd, 2, 3), parseAccounts(group, 2)...)
	return t, nil
}

// conflict names what has an id of r, other than the owner's own lines; "" is
// nothing.
func (t taken) conflict(owner string, r Range) string {
	for file, entries := range map[string][]Entry{"subuid": t.subUID, "subgid": t.subGID} {
		for _, e := range entries {
			if e.Owner != owner && e.Range.Overlaps(r) {
				return fmt.Sprintf("%s's ids in %s (%d, %d of them)", e.Owner, file, e.Range.First, e.Range.Count)
			}
		}
	}
	for _, id := range t.accounts {
		if r.Overlaps(Range{id, 1}) {
			return fmt.Sprintf("the user or group %d", id)
		}
	}
	return ""
}

func rangesOf(entries []Entry, owners ...string) []Range {
	var out []Range
	for _, e := range entries {
		for _, o := range owners {
			if e.Owner == o {
				out = append(out, e.Range)
			}
		}
	}
	return out
}

// Claim returns the ids that are the owner's in both files, adding a line to
// each where it has none. Ids that anybody else has are refused, also when the
// owner's lines were there before. Only root can add lines.
func Claim(f Files, owner string, count uint32) (Range, error) {
	unlock, err := f.lock()
	if err != nil {
		return Range{}, fmt.Errorf("claim ids: %w", err)
	}
	defer unlock()
	t, err := f.read()
	if err != nil {
		return Range{}, fmt.Errorf("claim ids: %w", err)
	}
	r, err := t.pick(owner, count)
	if err != nil {
		return Range{}, fmt.Errorf("claim ids for %s: %w", owner, err)
	}
	if c := t.conflict(owner, r); c != "" {
		return Range{}, fmt.Errorf("claim ids for %s: %d to %d overlap with %s", owner, r.First, r.end()-1, c)
	}
	line := fmt.Sprintf("%s:%d:%d\n", owner, r.First, r.Count)
	if err := addLine(f.SubUID, t.uidText, line, len(rangesOf(t.subUID, owner)) > 0); err != nil {
		return Range{}, fmt.Errorf("claim ids: %w", err)
	}
	if err := addLine(f.SubGID, t.gidText, line, len(rangesOf(t.subGID, owner)) > 0); err != nil {
		return Range{}, fmt.Errorf("claim ids: %w", err)
	}
	return r, nil
}

// pick is the owner's range, or a free one. A claim that was interrupted
// between the two files is completed.
func (t taken) pick(owner string, count uint32) (Range, error) {
	uids, gids := rangesOf(t.subUID, owner), rangesOf(t.subGID, owner)
	if len(uids) > 1 || len(gids) > 1 || len(uids) == 1 && len(gids) == 1 && uids[0] != gids[0] {
		return Range{}, errors.New("its lines in subuid and subgid are not one and the same range")
	}
	for _, r := range append(uids, gids...) {
		if r.Count < 2*BlockSize {
			return Range{}, fmt.Errorf("its %d ids are fewer than %d", r.Count, 2*BlockSize)
		}
		return r, nil
	}
	if count < 2*BlockSize {
		return Range{}, fmt.Errorf("%d ids are fewer than %d", count, 2*BlockSize)
	}
	for first := uint64(pickFirst); first+uint64(count) <= pickEnd; first += uint64(count) {
		if r := (Range{uint32(first), count}); t.conflict("", r) == "" {
			return r, nil
		}
	}
	return Range{}, errors.New("no free ids")
}

// addLine replaces the file, with its owner and mode, by one that has the line.
func addLine(path, text, line string, there bool) error {
	if there {
		return nil
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	real := path
	if st, err := os.Lstat(path); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s is a symbolic link", path)
	}
	return renameio.WriteFile(real, []byte(text+line), 0o644, renameio.WithExistingPermissions())
}

// lock takes the locks that useradd and usermod take on these files.
func (f Files) lock() (unlock func(), err error) {
	var held []string
	unlock = func() {
		for _, p := range held {
			_ = os.Remove(p)
		}
	}
	for _, path := range []string{f.SubUID + ".lock", f.SubGID + ".lock"} {
		l, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			unlock()
			if errors.Is(err, fs.ErrExist) {
				return nil, fmt.Errorf("%s exists: useradd or another init runs, or one was killed (then remove it)", path)
			}
			return nil, err
		}
		held = append(held, path)
		_, werr := l.WriteString(strconv.Itoa(os.Getpid()))
		if err := errors.Join(werr, l.Close()); err != nil {
			unlock()
			return nil, err
		}
	}
	return unlock, nil
}

// userCount is how many of an ordinary user's ids are used.
const userCount = 1024

// OfUser returns ids that an ordinary user, by name or number, has in both
// files: the last of the first range that both have, because other programs of
// the same user count from its start. Without any it is ErrNone.
func OfUser(f Files, name string, uid uint32) (Range, error) {
	t, err := f.read()
	if err != nil {
		return Range{}, fmt.Errorf("look up ids of %s: %w", name, err)
	}
	number := strconv.FormatUint(uint64(uid), 10)
	for _, u := range rangesOf(t.subUID, name, number) {
		for _, g := range rangesOf(t.subGID, name, number) {
			first, end := max(u.First, g.First), min(u.end(), g.end())
			if end < uint64(first)+2*BlockSize {
				continue
			}
			if end-uint64(first) > userCount {
				first = uint32(end - userCount)
			}
			r := Range{first, uint32(end - uint64(first))}
			if c := t.conflictOfUser(name, number, r); c != "" {
				return Range{}, fmt.Errorf("look up ids of %s: %d to %d overlap with %s", name, r.First, r.end()-1, c)
			}
			return r, nil
		}
	}
	return Range{}, fmt.Errorf("look up ids of %s: %w", name, ErrNone)
}

// conflictOfUser is conflict for a user whose lines have two kinds of owner.
func (t taken) conflictOfUser(name, number string, r Range) string {
	others := func(entries []Entry) []Entry {
		var out []Entry
		for _, e := range entries {
			if e.Owner != number {
				out = append(out, e)
			}
		}
		return out
	}
	return taken{subUID: others(t.subUID), subGID: others(t.subGID), accounts: t.accounts}.conflict(name, r)
}
