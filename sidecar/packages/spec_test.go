package packages

import (
	"strings"
	"testing"
)

func TestP1P2Specs(t *testing.T) {
	long := strings.Repeat("a", MaxName)
	tests := []struct{ text, name, version, tag string }{
		{"left-pad", "left-pad", "", "latest"},
		{"left-pad@1.3.0", "left-pad", "1.3.0", ""},
		{"left-pad@next", "left-pad", "", "next"},
		{"left-pad@beta-2", "left-pad", "", "beta-2"},
		{"left-pad@1.0.0-rc.1", "left-pad", "1.0.0-rc.1", ""},
		{"left-pad@0.0.0", "left-pad", "0.0.0", ""},
		{"left-pad@9007199254740991.0.0", "left-pad", "9007199254740991.0.0", ""},
		{"@scope/name", "@scope/name", "", "latest"},
		{"@scope/name@2.0.0", "@scope/name", "2.0.0", ""},
		{"@scope/name@next", "@scope/name", "", "next"},
		{"JSONStream@1.3.5", "JSONStream", "1.3.5", ""},
		{"a.b_c@1.0.0", "a.b_c", "1.0.0", ""},
		{"xyz@xyz", "xyz", "", "xyz"},
		{"a@vnext", "a", "", "vnext"},
		{long, long, "", "latest"},
	}
	for _, tt := range tests {
		s, err := ParseSpec(tt.text)
		if err != nil || s != (Spec{Name: tt.name, Version: tt.version, Tag: tt.tag}) {
			t.Errorf("%q: %+v, %v", tt.text, s, err)
		}
		again, err := ParseSpec(s.String())
		if err != nil || again != s {
			t.Errorf("%q: written %q, read again %+v, %v", tt.text, s.String(), again, err)
		}
	}
}

// badSpecs are the specs of cases P1, P2 and P4: nothing is resolved for them
// and nothing fetched.
func badSpecs() map[string]Reason {
	return map[string]Reason{
		"": BadName, "@": BadName, "@scope": BadName, "@scope/": BadName, "@/name": BadName, "@scope@1.0.0": BadName,
		"-g": BadName, "--registry=https://evil.example": BadName, " left-pad": BadName, "left-pad ": BadName, "left pad": BadName,
		"left-pad\n": BadName, "left-pad\x00": BadName, "../left-pad": BadName, "a/../b": BadName, "./left-pad": BadName, "/etc/passwd": BadName,
		".hidden": BadName, "_x": BadName, "@scope/.x": BadName, "@../x": BadName, "@a/b/c": BadName, "läft": BadName,
		strings.Repeat("a", MaxName+1): BadName, "npm:left-pad": BadName, "npm:left-pad@1.0.0": BadName, "file:left-pad": BadName,
		"file:../x@1.0.0": BadName, "git+https://host.example/x.git": BadName, "github:user/repo": BadName, "git@host.example:x/y.git": BadVersion,
		"https://host.example/x.tgz": BadName, "user/repo": BadName, "user/repo@1.0.0": BadName, "a$(id)": BadName, "a;id": BadName,
		"left-pad@": BadVersion, "@scope/name@": BadVersion, "a@npm:b@1": BadVersion, "a@npm:b@1.0.0": BadVersion, "a@1.0.0@1.0.0": BadVersion,
		"a@file:b": BadVersion, "a@../b": BadVersion, "a@user/repo": BadVersion, "a@https://host.example/x.tgz": BadVersion,
		"a@1.x": BadVersion, "a@x": BadVersion, "a@X": BadVersion, "a@x.x": BadVersion, "a@*": BadVersion, "a@^1.0.0": BadVersion, "a@~1.0.0": BadVersion,
		"a@>=1.0.0": BadVersion, "a@1.0.0 || 2.0.0": BadVersion, "a@1.0.0||2.0.0": BadVersion, "a@1.0.0 - 2.0.0": BadVersion, "a@1": BadVersion, "a@1.2": BadVersion,
		"a@v1.2.3": BadVersion, "a@V1": BadVersion, "a@v1.x": BadVersion, "a@vx": BadVersion, "a@=1.2.3": BadVersion, "a@01.0.0": BadVersion, "a@1.0.00": BadVersion,
		"a@1.0.0-01": BadVersion, "a@1.0.0-": BadVersion, "a@1.0.0-a..b": BadVersion, "a@ 1.0.0": BadVersion, "a@1.0.0 ": BadVersion, "a@1.0.0\n": BadVersion,
		"a@١.0.0": BadVersion, "a@1.0.0;$(id)": BadVersion, "a@la\x1btest": BadVersion, "a@-x": BadVersion,
		"a@1.0.0+build": BadVersion, "a@1.0.0-a+b": BadVersion, "a@1.0.0-x.tgz": BadVersion, "a@1.0.0-x.tar": BadVersion, "a@1.0.0-x.tar.gz": BadVersion,
		"a@1.0.0-x.TGZ": BadVersion, "a@1.0.0-x.Tar.Gz": BadVersion, "a@1.0.0-x.tar-gz": BadVersion, "a@x-y.tgz": BadVersion, "a@next.tgz": BadVersion,
		"a@9007199254740992.0.0": BadVersion, "a@1.9007199254740992.0": BadVersion, "a@1.0.99999999999999999999999": BadVersion,
		"a@1.0.0-" + strings.Repeat("a", MaxVersion): BadVersion, "a@" + strings.Repeat("t", 215): BadVersion,
	}
}

func TestP1P2P4RefusedSpecs(t *testing.T) {
	for text, want := range badSpecs() {
		if s, err := ParseSpec(text); err == nil || ReasonOf(err) != want {
			t.Errorf("%q: %+v, reason %v, want %v", text, s, ReasonOf(err), want)
		}
	}
}

func TestCheckIntegrity(t *testing.T) {
	good := "sha512-" + strings.Repeat("A", 86) + "=="
	if err := CheckIntegrity(good); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "sha512-", "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "sha256-" + strings.Repeat("A", 43) + "=", strings.TrimPrefix(good, "sha512-"),
		"SHA512" + good[6:], good + " " + good, good + "\n", good[:len(good)-1], "sha512-" + strings.Repeat("A", 85) + "B==", good + "?x",
		"sha512-" + strings.Repeat("A", 43) + "\n" + strings.Repeat("A", 43) + "==",
	} {
		if CheckIntegrity(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestOrigin(t *testing.T) {
	for address, want := range map[string]string{
		"https://registry.example/":            "https://registry.example",
		"https://registry.example":             "https://registry.example",
		"HTTPS://Registry.Example:443/":        "https://registry.example",
		"http://127.0.0.1:4873/npm/":           "http://127.0.0.1:4873/npm",
		"https://registry.example/a/b":         "https://registry.example/a/b",
		"https://registry.example:444":         "https://registry.example:444",
		"":                                     "",
		"registry.example":                     "",
		"ftp://registry.example":               "",
		"https://":                             "",
		"https://u:p@registry.example":         "",
		"https://registry.example/?x":          "",
		"https://registry.example/#x":          "",
		"https://registry.example/a/../b":      "",
		"https://registry.example//":           "https://registry.example",
		"https:registry.example":               "",
		"https://registry.example/a//b":        "",
		"https://registry.example/%2e%2e/evil": "",
	} {
		got, err := Origin(address)
		if (err != nil) != (want == "") || got != want {
			t.Errorf("%q: %q, %v, want %q", address, got, err, want)
		}
	}
}

func TestP6OneSegment(t *testing.T) {
	for name, want := range map[string]string{
		"left-pad":    "https://registry.example/left-pad",
		"@scope/name": "https://registry.example/@scope%2Fname",
	} {
		if got := documentURL("https://registry.example", name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	for text := range badSpecs() {
		f.Add(text)
	}
	for _, text := range []string{"left-pad", "@scope/name@1.0.0", "a@next"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpec(text)
		if err != nil {
			if ReasonOf(err) != BadName && ReasonOf(err) != BadVersion {
				t.Fatalf("%q: reason %q", text, ReasonOf(err))
			}
			return
		}
		if (s.Version == "") == (s.Tag == "") || CheckName(s.Name) != nil || strings.ContainsAny(s.String(), " \t\n:;$\\'\"") {
			t.Fatalf("%q gives %+v", text, s)
		}
		if again, err := ParseSpec(s.String()); err != nil || again != s {
			t.Fatalf("%q: %+v, read again %+v, %v", text, s, again, err)
		}
	})
}
