package product

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// FactKind is what a fact says.
type FactKind string

// Facts of the walk itself. A tree with a fact of the first group is not
// complete and has no digests.
const (
	FactUnreadable FactKind = "unreadable" // could not be opened or read
	FactLimit      FactKind = "limit"      // beyond a limit, not read
	FactChanged    FactKind = "changed"    // changed while it was read, or a link took its place
	FactMount      FactKind = "mount"      // another file system is mounted there

	FactLeftOut    FactKind = "left-out"        // Stage only: not copied; Detail says why
	FactHardLink   FactKind = "hard-link"       // has more names than the tree holds
	FactCapability FactKind = "file-capability" // security.capability is set
)

// Facts that an Extractor reports.
const (
	FactGitConfig  FactKind = "git-config"  // a git configuration key that runs a program
	FactGitHook    FactKind = "git-hook"    // a program in a hooks directory
	FactGitLink    FactKind = "git-link"    // .git as a file, or a commondir file
	FactGitProgram FactKind = "git-program" // reached by a link or core.hooksPath; reported at the end
	FactGitInclude FactKind = "git-include" // a configuration that another file names; reported at the end
	FactScript     FactKind = "script"      // one script of a package.json; Name is its name
	FactNeeds      FactKind = "needs"       // a field of a package.json that names what npm fetches; Name is its name
	FactTask       FactKind = "task"        // a setting of an editor or tool that runs a program
	FactTarget     FactKind = "link-target" // what a link named Name leads to; SHA256 is of its content
	FactRefers     FactKind = "refers"      // Name is a file that the content names; SHA256 is of that file; reported at the end
	FactGitIndex   FactKind = "git-index"   // SHA256 is of a git index without its stat fields
	FactPackage    FactKind = "package"     // one package that a lock file names; Name is its place
	FactUnparsed   FactKind = "unparsed"    // the file's format could not be read; compare it whole
)

// MaxFact is the longest Name or Detail of a fact, in bytes.
const MaxFact = 1 << 10

// Fact is one thing that a reader noticed about one path. Name and Detail are
// for people and are cut to MaxFact with invalid UTF-8 replaced; SHA256 is over
// the exact bytes, so that facts are compared by it.
type Fact struct {
	Path   string
	Kind   FactKind
	Name   string
	Detail string
	SHA256 [32]byte
}

// Breaks reports whether the fact means that the tree was not read in full.
func (k FactKind) Breaks() bool {
	switch k {
	case FactUnreadable, FactLimit, FactChanged, FactMount:
		return true
	}
	return false
}

// GitExec reports whether facts of the kind are part of the git-exec digest.
func (k FactKind) GitExec() bool {
	switch k {
	case FactGitConfig, FactGitHook, FactGitLink, FactGitProgram, FactGitInclude:
		return true
	}
	return false
}

// known lists the kinds that a stream may hold.
func (k FactKind) known() bool {
	switch k {
	case FactLeftOut, FactHardLink, FactCapability,
		FactGitConfig, FactGitHook, FactGitLink, FactGitProgram, FactGitInclude, FactScript, FactNeeds, FactTask, FactTarget, FactRefers, FactGitIndex, FactPackage, FactUnparsed:
		return true
	}
	return k.Breaks()
}

// Text makes s fit for a fact's Name or Detail.
func Text(s string) string {
	if len(s) > MaxFact {
		s = s[:MaxFact-3] + "..."
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > MaxFact { // replacing made it longer
		s = strings.ToValidUTF8(s[:MaxFact-4], "") + "..."
	}
	return s
}

// appendFact appends f's JSON object in canonical form.
func appendFact(dst []byte, f *Fact) []byte {
	dst = append(dst, '{')
	dst = appendPath(dst, f.Path)
	dst = append(dst, `,"kind":"`...)
	dst = append(dst, f.Kind...)
	dst = append(dst, `","name":"`...)
	dst = appendJSONText(dst, f.Name)
	dst = append(dst, `","detail":"`...)
	dst = appendJSONText(dst, f.Detail)
	dst = append(dst, `","sha256":"`...)
	dst = fmt.Appendf(dst, "%x", f.SHA256)
	return append(dst, `"}`...)
}

var errFact = errors.New("fact is not well formed")

func (f *Fact) check() error {
	if f.Path != "" { // a fact about the whole tree has no path
		if err := checkPath(f.Path); err != nil {
			return err
		}
	}
	if !f.Kind.known() || len(f.Name) > MaxFact || len(f.Detail) > MaxFact ||
		!utf8.ValidString(f.Name) || !utf8.ValidString(f.Detail) {
		return errFact
	}
	return nil
}

// parseFact is appendFact's inverse and accepts only what that writes.
func parseFact(b []byte) (Fact, error) {
	var f Fact
	s := scanner{rest: b}
	s.literal("{")
	f.Path = s.path()
	s.literal(`,"kind":"`)
	f.Kind = FactKind(s.until('"'))
	s.literal(`","name":"`)
	f.Name = s.text()
	s.literal(`","detail":"`)
	f.Detail = s.text()
	s.literal(`","sha256":"`)
	s.hex(f.SHA256[:])
	s.literal(`"}`)
	if s.bad || len(s.rest) != 0 {
		return Fact{}, errNotCanonical
	}
	return f, f.check()
}

// Summary is the end of a stream: what was in it. The reader of a stream
// computes it again and refuses a stream whose writer disagrees.
type Summary struct {
	Complete bool   `json:"complete"`
	Entries  int64  `json:"entries"`
	Facts    int64  `json:"facts"`
	Bytes    int64  `json:"bytes"` // of content
	Tree     string `json:"tree"`  // hex, "" when the tree is not complete
	Worktree string `json:"worktree"`
	GitExec  string `json:"git_exec"`
}

func (s *Summary) encode() []byte {
	b, err := json.Marshal(s)
	if err != nil { // a struct of integers and hex always marshals
		return nil
	}
	return b
}

// sameSummary reports whether b is exactly s's encoding.
func sameSummary(b []byte, s *Summary) bool { return bytes.Equal(b, s.encode()) }
