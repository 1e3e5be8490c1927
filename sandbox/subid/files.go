package subid

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// maxFile bounds every file of /etc that is read, in bytes.
const maxFile = 16 << 20

// entry is one line of subuid(5) or subgid(5).
type entry struct {
	owner string
	Range
}

// parseEntries reads OWNER:FIRST:COUNT lines. A line that is not one is an
// error: what it means to other programs is unknown.
func parseEntries(r io.Reader) ([]entry, error) {
	var all []entry
	lines := bufio.NewScanner(io.LimitReader(r, maxFile))
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		f := strings.Split(text, ":")
		if len(f) != 3 || f[0] == "" {
			return nil, fmt.Errorf("line %d is not OWNER:FIRST:COUNT", n)
		}
		first, err1 := strconv.ParseUint(f[1], 10, 32)
		count, err2 := strconv.ParseUint(f[2], 10, 32)
		if err1 != nil || err2 != nil || first+count > 1<<32-1 {
			return nil, fmt.Errorf("line %d: not a range of ids", n)
		}
		if count > 0 {
			all = append(all, entry{f[0], Range{uint32(first), uint32(count)}})
		}
	}
	return all, lines.Err()
}

// parseIDs reads the third field of passwd(5) or group(5) lines. Lines of
// other forms (NIS, comments) name no id.
func parseIDs(r io.Reader) ([]uint32, error) {
	var all []uint32
	lines := bufio.NewScanner(io.LimitReader(r, maxFile))
	for lines.Scan() {
		f := strings.Split(lines.Text(), ":")
		if len(f) < 4 {
			continue
		}
		if id, err := strconv.ParseUint(f[2], 10, 32); err == nil {
			all = append(all, uint32(id))
		}
	}
	return all, lines.Err()
}

// parseMap reads the ids that exist in this user namespace (user_namespaces(7)).
func parseMap(r io.Reader) ([]Range, error) {
	var all []Range
	lines := bufio.NewScanner(io.LimitReader(r, maxFile))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) != 3 {
			return nil, fmt.Errorf("id map line %q", lines.Text())
		}
		first, err1 := strconv.ParseUint(f[0], 10, 32)
		count, err2 := strconv.ParseUint(f[2], 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		all = append(all, Range{uint32(first), uint32(count)})
	}
	return all, lines.Err()
}

func readFile[T any](path string, parse func(io.Reader) ([]T, error)) ([]T, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	all, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return all, nil
}
