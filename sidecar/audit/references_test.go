package audit

import (
	"slices"
	"strings"
	"testing"
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
		if got := References(c.from, []byte(c.content)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q refers to %q, want %q", c.from, c.content, got, c.want)
		}
	}
	many := strings.Repeat("./a ", 3) + strings.Join(strings.Split(strings.Repeat("x", 5000), ""), "/")
	if got := References("", []byte(many)); len(got) != 1 {
		t.Errorf("%d references", len(got))
	}
}

func FuzzReferences(f *testing.F) {
	f.Add(".envrc", []byte(". ./a"))
	f.Add(".git/hooks/pre-commit", []byte("exec ../../b.sh"))
	f.Fuzz(func(t *testing.T, from string, content []byte) {
		all := References(from, content)
		if len(all) > MaxReferences {
			t.Fatalf("%d", len(all))
		}
		for _, r := range all {
			if strings.HasPrefix(r, "../") || r == "" || r == ".." {
				t.Fatalf("%q leads out", r)
			}
		}
	})
}
