package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Packages is about packages that the agent installs.
type Packages struct {
	Registry string     // origin of the package registry; empty means none is configured
	Allow    []NameGlob // names that need no approval
	Deny     []NameGlob // names that no approval helps
	Also     []NameGlob // Allow counts only for names that these cover, too; empty is all
}

// PackageDenied returns the first pattern of packages.deny that covers the name.
func (p *Policy) PackageDenied(name string) (pattern string, denied bool) {
	return covers(p.Packages.Deny, name)
}

// PackageAllowed returns the first pattern of packages.allow that covers the name.
func (p *Policy) PackageAllowed(name string) (pattern string, allowed bool) {
	if _, also := covers(p.Packages.Also, name); !also && len(p.Packages.Also) > 0 {
		return "", false
	}
	return covers(p.Packages.Allow, name)
}

func covers(globs []NameGlob, name string) (string, bool) {
	for _, g := range globs {
		if g.Match(name) {
			return g.text, true
		}
	}
	return "", false
}

// NameGlob is a pattern over package names. The zero NameGlob matches nothing.
type NameGlob struct {
	text  string
	parts []string // the literals between the stars
}

const maxPackageName = 214

// ParseNameGlob reads a package name in which a star stands for any characters,
// a scope's slash included. A pattern that names a version, or that no name can
// match, is refused: a denial that never matches denies nothing.
func ParseNameGlob(s string) (NameGlob, error) {
	// A name, with or without its scope; or a scope's beginning and a star.
	whole := regexp.MustCompile(`^(@[A-Za-z0-9*][A-Za-z0-9._*-]*/)?[A-Za-z0-9*][A-Za-z0-9._*-]*$|^@([A-Za-z0-9][A-Za-z0-9._-]*)?\*[A-Za-z0-9._*-]*$`)
	switch {
	case strings.LastIndexByte(s, '@') > 0:
		return NameGlob{}, errors.New("names a version; here are names only, and proctor trust deny-package denies one version")
	case len(s) > maxPackageName:
		return NameGlob{}, fmt.Errorf("is longer than %d characters", maxPackageName)
	case !whole.MatchString(s):
		return NameGlob{}, errors.New("is not a package's name, or a pattern that one could match")
	}
	return NameGlob{text: s, parts: strings.Split(s, "*")}, nil
}

// String returns the pattern as it was written.
func (g NameGlob) String() string { return g.text }

// Match reports whether the pattern covers the whole name. Letters' case counts,
// as it does in a registry.
func (g NameGlob) Match(name string) bool {
	return len(g.parts) > 0 && matchComponent(g.parts, name)
}
