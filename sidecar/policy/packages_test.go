package policy

import "testing"

func TestNameGlob(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"left-pad", "left-pad", true},
		{"left-pad", "left-pad2", false},
		{"left-pad", "Left-Pad", false},
		{"left-pad", "@me/left-pad", false},
		{"*", "left-pad", true},
		{"*", "@me/left-pad", true},
		{"@me/*", "@me/left-pad", true},
		{"@me/*", "@me2/left-pad", false},
		{"@me*", "@me2/left-pad", true},
		{"*-evil", "@me/x-evil", true},
		{"*-evil", "x-evil2", false},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "acb", false},
	}
	for _, tt := range tests {
		g, err := ParseNameGlob(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Match(tt.name); got != tt.want {
			t.Errorf("%q matches %q: %v", tt.pattern, tt.name, got)
		}
	}
	if (NameGlob{}).Match("") {
		t.Error("the zero pattern matches")
	}
}

// TestP10PackageRules is case P10: a list of denials is read in full or not at all.
func TestP10PackageRules(t *testing.T) {
	p, err := Parse("p", []byte("version: 1\npackages: {deny: [\"evil*\"], allow: [\"@me/*\", evil-but-mine]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if rule, denied := p.PackageDenied("evil-but-mine"); !denied || rule != "evil*" {
		t.Errorf("denied by %q, %v", rule, denied)
	}
	if _, denied := p.PackageDenied("left-pad"); denied {
		t.Error("a name that no pattern covers is denied")
	}
	if rule, allowed := p.PackageAllowed("@me/x"); !allowed || rule != "@me/*" {
		t.Errorf("allowed by %q, %v", rule, allowed)
	}
	if p, err := Parse("p", []byte("version: 1\npackages: {deny: [\"evil*\", \"left-pad@1.3.0\"]}\n")); err == nil {
		t.Errorf("a denial with a version is read as %v", p.Packages.Deny)
	}
}

func FuzzParseNameGlob(f *testing.F) {
	for _, s := range []string{"a", "@s/*", "*", "a@1", "@s", "@*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ParseNameGlob(s)
		if err != nil {
			return
		}
		again, err := ParseNameGlob(g.String())
		if err != nil || again.Match("@scope/name") != g.Match("@scope/name") {
			t.Fatalf("%q: %v", s, err)
		}
		g.Match("left-pad")
	})
}

func TestTemplateWith(t *testing.T) {
	text, err := TemplateWith("https://registry.example.test/npm/")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Parse("p", []byte(text)); err != nil || p.Packages.Registry != "https://registry.example.test/npm/" || len(p.Packages.Allow) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "file:///x", "https://u:p@h.test/", "https://h.test/\"\nagent: {}", "undefined"} {
		if text, err := TemplateWith(bad); err == nil {
			t.Errorf("%q gives %s", bad, text)
		}
	}
}
