package subid

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Range is the ids from First to First+Count-1.
type Range struct{ First, Count uint32 }

func (r Range) end() uint64 { return uint64(r.First) + uint64(r.Count) }

// Overlaps reports whether the two have an id in common.
func (r Range) Overlaps(o Range) bool {
	return r.Count > 0 && o.Count > 0 && uint64(r.First) < o.end() && uint64(o.First) < r.end()
}

// Entry is one line of /etc/subuid or /etc/subgid: an owner's name or number
// and the ids that the owner may use.
type Entry struct {
	Owner string
	Range Range
}

// ParseEntries reads the text of such a file. Empty lines and lines that start
// with # are skipped; any other line that is not OWNER:FIRST:COUNT is an error,
// because what it was meant to reserve cannot be known.
func ParseEntries(text string) ([]Entry, error) {
	var all []Entry
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		e, err := parseEntry(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		all = append(all, e)
	}
	return all, nil
}

func parseEntry(line string) (Entry, error) {
	f := strings.Split(line, ":")
	if len(f) != 3 || f[0] == "" {
		return Entry{}, fmt.Errorf("%.80q is not OWNER:FIRST:COUNT", line)
	}
	first, err1 := strconv.ParseUint(f[1], 10, 32)
	count, err2 := strconv.ParseUint(f[2], 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return Entry{}, fmt.Errorf("%.80q is not OWNER:FIRST:COUNT", line)
	}
	e := Entry{Owner: f[0], Range: Range{uint32(first), uint32(count)}}
	// The last id, 2^32-1, is the kernel's "none".
	if e.Range.end() > 1<<32-1 {
		return Entry{}, fmt.Errorf("%.80q goes beyond the last id", line)
	}
	return e, nil
}

// parseAccounts reads the ids of /etc/passwd or /etc/group, which have them in
// the given fields, counted from 0. Lines of other shapes (NIS's +) name no id.
func parseAccounts(text string, fields ...int) []uint32 {
	var ids []uint32
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.Split(line, ":")
		for _, n := range fields {
			if n >= len(f) {
				continue
			}
			if id, err := strconv.ParseUint(f[n], 10, 32); err == nil {
				ids = append(ids, uint32(id))
			}
		}
	}
	return ids
}

// maxFile bounds the files of ids, in bytes.
const maxFile = 16 << 20

// readText reads a file; an absent one is empty.
func readText(path string) (string, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() || st.Size() > maxFile {
		return "", fmt.Errorf("%s is not a file of at most %d bytes", path, maxFile)
	}
	b, err := os.ReadFile(path)
	return string(b), err
}
