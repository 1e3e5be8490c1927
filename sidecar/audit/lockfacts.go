package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/proctor-project/proctor/keys/strictjson"
	"github.com/proctor-project/proctor/sidecar/packages"
	"github.com/proctor-project/proctor/sidecar/product"
)

// hiddenLock is the lock file that npm keeps of what it installed.
const hiddenLock = ".package-lock.json"

// isLock reports whether path is a lock file of the product: one that npm reads
// there, or the hidden one of a node_modules. A dependency's own is part of that
// dependency.
func isLock(path string) bool {
	name := strings.ToLower(base(path))
	root := path
	switch name {
	case "package-lock.json", "npm-shrinkwrap.json":
	case hiddenLock:
		root = dir(path)
		if base(root) != modules {
			return false
		}
		root = dir(root)
	default:
		return false
	}
	_, dependency := packageDir(root)
	return !dependency && !product.InGit(path)
}

// lockRoot is the directory whose installation a lock file is about.
func lockRoot(path string) string {
	if strings.ToLower(base(path)) == hiddenLock {
		path = dir(path)
	}
	return dir(path)
}

// lockFact is what the judge learns of one entry of a lock file.
type lockFact struct {
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Resolved  string            `json:"resolved"`
	Integrity string            `json:"integrity"`
	Alias     bool              `json:"alias"`
	Link      bool              `json:"link"`
	Local     bool              `json:"local"`
	Bundled   bool              `json:"bundled"`
	Bins      map[string]string `json:"bins,omitempty"`
}

// lockFacts reports each package that a lock file names. The fact's digest is
// over everything but its place and line: the same package elsewhere is no other.
func lockFacts(path string, content []byte, whole bool) []product.Fact {
	entries, err := packages.ParseLock(content)
	if err != nil || !whole {
		return []product.Fact{unparsed(path, "lock file")}
	}
	lines := keyLines(content)
	slices.SortFunc(entries, func(a, b packages.LockEntry) int { return cmp.Compare(a.Place, b.Place) })
	facts := make([]product.Fact, 0, len(entries))
	for _, e := range entries {
		text, err := strictjson.Marshal(lockFact{
			Name: e.Name, Version: e.Version, Resolved: e.Resolved, Integrity: e.Integrity, Alias: e.Alias, Link: e.Link, Local: e.Local, Bundled: e.Bundled, Bins: e.Bins,
		})
		if err != nil {
			return []product.Fact{unparsed(path, "lock file")}
		}
		f := product.Fact{Path: path, Kind: product.FactPackage, Name: product.Text(e.Place), SHA256: sha256.Sum256(text)}
		if len(text)+lineLength <= product.MaxFact && f.Name == e.Place {
			f.Detail = lineOf(lines[e.Place]) + string(text)
		}
		facts = append(facts, f)
	}
	return facts
}

// lineLength is that of the number before a fact's text.
const lineLength = 9

// keyLines are the lines on which the members of a document begin, as npm writes
// one: each on a line of its own, without escapes.
func keyLines(content []byte) map[string]int {
	lines := map[string]int{}
	n := 0
	for line := range bytes.Lines(content) {
		n++
		rest, ok := bytes.CutPrefix(bytes.TrimLeft(line, " \t"), []byte(`"`))
		if !ok || n > 99_999_999 {
			continue
		}
		if key, after, ok := bytes.Cut(rest, []byte(`"`)); ok && bytes.HasPrefix(after, []byte(`: {`)) {
			if _, known := lines[string(key)]; !known {
				lines[string(key)] = n
			}
		}
	}
	return lines
}

func lineOf(line int) string { return fmt.Sprintf("%08d ", line) }

// readLockFact is the entry that a fact tells of; ok is false where the file says
// more than a fact holds.
func readLockFact(f product.Fact) (e packages.LockEntry, line int, ok bool) {
	var t lockFact
	if len(f.Detail) <= lineLength || strictjson.Unmarshal([]byte(f.Detail[lineLength:]), &t, strictjson.Limits{}) != nil {
		return packages.LockEntry{Place: f.Name}, 0, false
	}
	line, err := strconv.Atoi(f.Detail[:lineLength-1])
	if err != nil || line < 0 {
		return packages.LockEntry{Place: f.Name}, 0, false
	}
	return packages.LockEntry{
		Place: f.Name, Name: t.Name, Version: t.Version, Resolved: t.Resolved, Integrity: t.Integrity,
		Alias: t.Alias, Link: t.Link, Local: t.Local, Bundled: t.Bundled, Bins: t.Bins,
	}, line, true
}
