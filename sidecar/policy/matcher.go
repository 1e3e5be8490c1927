package policy

// Matcher returns a function that says whether any of the patterns matches.
func Matcher(patterns []string) (func(path string) bool, error) {
	globs := make([]Glob, 0, len(patterns))
	for _, p := range patterns {
		g, err := ParseGlob(p)
		if err != nil {
			return nil, err
		}
		globs = append(globs, g)
	}
	return func(path string) bool { return AnyMatch(globs, path) }, nil
}

// AnyMatch reports whether any of the patterns matches the path.
func AnyMatch(globs []Glob, path string) bool {
	for _, g := range globs {
		if g.Match(path) {
			return true
		}
	}
	return false
}
