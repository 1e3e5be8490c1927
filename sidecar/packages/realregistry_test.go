package packages

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// realRegistry is the address that the host's npm uses.
func realRegistry(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "npm", "config", "get", "registry").Output()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("npm is needed: %v", err)
		}
		t.Skipf("npm is needed: %v", err)
	}
	withNetwork(t)
	return strings.TrimSpace(string(out))
}

// TestRealRegistry resolves packages that people use: a scoped one, and some
// whose documents are among the largest that there are.
func TestRealRegistry(t *testing.T) {
	c, err := NewClient(Config{Registry: realRegistry(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{
		"@modelcontextprotocol/server-filesystem", "typescript", "react", "react@18.3.1", "typescript@5.4.5", "left-pad@1.3.0",
		"@types/node", "webpack", "next", "@babel/core", "eslint", "aws-sdk", "aws-cdk-lib", "electron",
	} {
		t.Run(spec, func(t *testing.T) {
			id, err := c.Resolve(t.Context(), spec)
			if err != nil || id.Check() != nil {
				t.Fatalf("identity %+v, %v", id, err)
			}
			if d, err := c.Document(t.Context(), id.Name); err == nil {
				t.Logf("%s: %d versions, %d KiB", id.Spec(), len(d.doc.Versions), d.size>>10)
			} else if ReasonOf(err) == TooLarge {
				t.Logf("%s: over the bound; by the version's own document", id.Spec())
			} else {
				t.Error(err)
			}
		})
	}
	for spec, want := range map[string]Reason{
		"left-pad@99.0.0": NoVersion, "left-pad@no-such-tag": NoTag, "@modelcontextprotocol/no-such-package-as-this": Unknown,
	} {
		if _, err := c.Resolve(t.Context(), spec); ReasonOf(err) != want {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}
