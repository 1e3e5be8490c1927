package audit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/audit"
)

// TestT16References: what a content loads or runs is named.
func TestT16References(t *testing.T) {
	for _, c := range []struct {
		from, content string
		want          []string
	}{
		{".envrc", ". ./setup.sh\nsource lib/env\nexport A=1", []string{"setup.sh", "lib/env"}},
		{".envrc", "source_env ../outside\nPATH_add bin", nil},
		{".git/hooks/post-checkout", "#!/bin/sh\nexec ./scripts/x \"$@\"; bash tools/run.sh", []string{"scripts/x", "tools/run.sh"}},
		{"sub/.envrc", "node build.js; ./a", []string{"sub/build.js", "sub/a"}},
		{".vscode/settings.json", `{"python.pythonPath": "./venv/bin/python", "x": "a/b"}`, []string{"venv/bin/python"}},
		{".mcp.json", `{"mcpServers": {"a": {"command": "node", "args": ["tools/server.mjs"]}}}`, []string{"tools/server.mjs"}},
		{".envrc", "/usr/bin/env; ~/x.sh; $HOME/x.sh; https://h.example/x.sh; -x/y.sh", nil},
		{"x.pth", "\x00./a", nil},
		{"x.pth", "\xff./a.py", nil},
		{"a.sh", "./a.sh ./b.sh ./b.sh", []string{"b.sh"}},
	} {
		if got := audit.References(c.from, []byte(c.content)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q refers to %q, want %q", c.from, c.content, got, c.want)
		}
	}
	many := strings.Repeat("./a ", 3) + strings.Join(strings.Split(strings.Repeat("x", 5000), ""), "/")
	if got := audit.References("", []byte(many)); len(got) != 1 {
		t.Errorf("%d references", len(got))
	}
}

func FuzzReferences(f *testing.F) {
	f.Add(".envrc", []byte(". ./a"))
	f.Add(".git/hooks/pre-commit", []byte("exec ../../b.sh"))
	f.Fuzz(func(t *testing.T, from string, content []byte) {
		all := audit.References(from, content)
		if len(all) > audit.MaxReferences {
			t.Fatalf("%d", len(all))
		}
		for _, r := range all {
			if strings.HasPrefix(r, "../") || r == "" || r == ".." {
				t.Fatalf("%q leads out", r)
			}
		}
	})
}

// TestLinksAreNoContent: an approved content does not cover a link whose target
// has the same bytes.
func TestLinksAreNoContent(t *testing.T) {
	all := func(string, [32]byte) bool { return true }
	judge := func(files map[string]string) *audit.Result {
		t.Helper()
		s := newSession(t, map[string]string{"a.txt": "x"})
		s.write(files)
		return s.judge(audit.Input{Approved: all})
	}
	r := judge(map[string]string{".envrc": "->a.txt"})
	if len(r.Findings) != 2 || r.Findings[0].RawPath() != ".envrc" || r.Findings[0].Approvable || r.Findings[0].Approved {
		t.Errorf("a link: %+v", r.Findings)
	}
	r = judge(map[string]string{".envrc": "a.txt"})
	if len(r.Findings) != 1 || !r.Findings[0].Approvable || !r.Findings[0].Approved {
		t.Errorf("a file: %+v", r.Findings)
	}
}

// TestT16FindingsNameReferences: what a trap runs is named with it, if it is there
// and not approved itself.
func TestT16FindingsNameReferences(t *testing.T) {
	s := newSession(t, map[string]string{"lib/known.sh": "x"})
	s.write(map[string]string{".envrc": ". ./lib/known.sh; . ./new.sh; . ./missing.sh; . ./gone", "new.sh": "y", "gone": "->/etc/passwd"})
	r := s.judge(audit.Input{})
	if len(r.Findings) != 1 || !slices.Equal(r.Findings[0].References, []string{"lib/known.sh", "new.sh"}) {
		t.Errorf("%+v", r.Findings)
	}
	r = s.judge(audit.Input{Covered: func(path string, _ [32]byte) bool { return path == "new.sh" }})
	if !slices.Equal(r.Findings[0].References, []string{"lib/known.sh"}) {
		t.Errorf("covered: %+v", r.Findings)
	}
}
