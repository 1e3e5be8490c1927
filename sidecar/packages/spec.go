package packages

import (
	"encoding/base64"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// Limits of names, in bytes: npm's own for packages and versions.
const (
	MaxName    = 214
	MaxVersion = 256
	maxTag     = 214
)

// Spec is a well-formed npm spec. Exactly one of Version and Tag is set; a spec
// without either in its text means the tag "latest".
type Spec struct {
	Name    string
	Version string // exact
	Tag     string
}

// String is the spec in one spelling.
func (s Spec) String() string {
	if s.Version != "" {
		return s.Name + "@" + s.Version
	}
	return s.Name + "@" + s.Tag
}

// ParseSpec reads what npm would take as NAME, NAME@VERSION or NAME@TAG of a
// registry. Everything else that npm understands (ranges, aliases, files,
// addresses, repositories) is refused with an *Error.
func ParseSpec(text string) (Spec, error) {
	name, rest, found := cutSpec(text)
	if err := CheckName(name); err != nil {
		return Spec{}, &Error{Reason: BadName, Subject: text, Err: err}
	}
	switch {
	case !found:
		return Spec{Name: name, Tag: "latest"}, nil
	case rest == "":
		return Spec{}, refuse(BadVersion, text, "nothing follows the @")
	case CheckVersion(rest) == nil:
		return Spec{Name: name, Version: rest}, nil
	}
	if err := checkTag(rest); err != nil {
		return Spec{}, &Error{Reason: BadVersion, Subject: text, Err: err}
	}
	return Spec{Name: name, Tag: rest}, nil
}

// cutSpec splits at the first @ that does not begin a scope.
func cutSpec(text string) (name, rest string, found bool) {
	from := 0
	if strings.HasPrefix(text, "@") {
		from = 1
	}
	i := strings.IndexByte(text[from:], '@')
	if i < 0 {
		return text, "", false
	}
	return text[:from+i], text[from+i+1:], true
}

// CheckName takes the name of a package in a registry: an optional scope and a
// segment, each of which starts with a letter or digit.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("empty name")
	case len(name) > MaxName:
		return errors.New("longer than " + strconv.Itoa(MaxName) + " characters")
	}
	rest := name
	if scoped, ok := strings.CutPrefix(name, "@"); ok {
		scope, last, both := strings.Cut(scoped, "/")
		if !both || !isSegment(scope) {
			return errors.New("a scope without a name")
		}
		rest = last
	}
	if !isSegment(rest) {
		return errors.New("letters, digits, dots, dashes and underscores make a name")
	}
	return nil
}

func isSegment(s string) bool {
	if s == "" || !alphanumeric(s[0]) {
		return false
	}
	for i := range len(s) {
		if !alphanumeric(s[i]) && strings.IndexByte("._-", s[i]) < 0 {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// CheckVersion takes one exact version that npm reads as a version of a
// registry. npm reads what looks like an archive's name as a file, and a number
// above 2^53-1 or a longer text as a tag; build metadata is not part of what a
// registry keeps apart.
func CheckVersion(v string) error {
	switch {
	case v == "":
		return errors.New("empty version")
	case len(v) > MaxVersion:
		return errors.New("longer than " + strconv.Itoa(MaxVersion) + " characters")
	case strings.Contains(v, "+"):
		return errors.New("build metadata")
	case semver.Canonical("v"+v) != "v"+v:
		return errors.New("not one exact version")
	case archiveShaped(v):
		return errors.New("npm reads it as an archive's file name")
	}
	core, _, _ := strings.Cut(v, "-")
	for part := range strings.SplitSeq(core, ".") {
		if n, err := strconv.ParseUint(part, 10, 64); err != nil || n > 1<<53-1 {
			return errors.New("a number above 2^53-1")
		}
	}
	return nil
}

// archiveShaped reports what npm (npm-package-arg) takes for a file's name,
// whatever stands between "tar" and "gz".
func archiveShaped(s string) bool {
	return regexp.MustCompile(`(?i)[.](?:tgz|tar.gz|tar)$`).MatchString(s)
}

// checkTag takes a dist-tag: a word that begins with a letter and that npm
// could not read as a version, a range or a file.
func checkTag(tag string) error {
	switch {
	case len(tag) > maxTag:
		return errors.New("longer than " + strconv.Itoa(maxTag) + " characters")
	case !isSegment(tag) || tag[0] >= '0' && tag[0] <= '9':
		return errors.New("neither one exact version nor a dist-tag")
	case regexp.MustCompile(`^[vV]*(?:[0-9]|[xX](?:[.-]|$))`).MatchString(tag):
		return errors.New("npm reads it as a range")
	case archiveShaped(tag):
		return errors.New("npm reads it as an archive's file name")
	}
	return nil
}

// CheckIntegrity takes one sha512 as npm writes it: "sha512-" and the base64 of
// 64 bytes.
func CheckIntegrity(s string) error {
	encoded, ok := strings.CutPrefix(s, "sha512-")
	if !ok {
		return errors.New("not one sha512")
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(sum) != 64 || len(encoded) != 88 {
		return errors.New("not the base64 of 64 bytes")
	}
	return nil
}
