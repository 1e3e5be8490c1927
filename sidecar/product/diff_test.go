package product_test

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/product"
)

func side(content string, mode uint32) *product.Side {
	return &product.Side{Content: []byte(content), Entry: product.Entry{
		Type: product.TypeFile, Mode: mode, Size: int64(len(content)), SHA256: sha256.Sum256([]byte(content)),
	}}
}

func diffOf(t testing.TB, path string, before, after *product.Side) string {
	t.Helper()
	var b bytes.Buffer
	must(t, product.Diff(&b, path, before, after))
	return b.String()
}

func TestDiff(t *testing.T) {
	link := side("target", 0o777)
	link.Entry.Type = product.TypeSymlink
	cut := side("abc", 0o644)
	cut.Entry.Size = 5
	for name, c := range map[string]struct {
		path          string
		before, after *product.Side
		want          string
	}{
		"equal":   {"f", side("a\n", 0o644), side("a\n", 0o644), ""},
		"changed": {"f", side("a\nb\nc\n", 0o644), side("a\nB\nc\n", 0o644), "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
		"new":     {"f", nil, side("a\n", 0o755), "diff --git a/f b/f\nnew file mode 100755\n--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+a\n"},
		"deleted": {"f", side("a", 0o644), nil, "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n\\ No newline at end of file\n"},
		"mode":    {"f", side("a\n", 0o644), side("a\n", 0o755), "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"},
		"binary":  {"f", side("a\x00", 0o644), side("b", 0o644), "diff --git a/f b/f\nBinary files a/f and b/f differ\n"},
		"cut":     {"f", cut, side("b", 0o644), "diff --git a/f b/f\nFiles a/f and b/f differ and are too large to show\n"},
		"link":    {"f", nil, link, "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+target\n\\ No newline at end of file\n"},
		"name":    {"a\n\"\xff", side("", 0o644), nil, "diff --git \"a/a\\n\\\"\\377\" \"b/a\\n\\\"\\377\"\ndeleted file mode 100644\n"},
	} {
		if got := diffOf(t, c.path, c.before, c.after); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
	if got := diffOf(t, "f", side(strings.Repeat("x\n", product.MaxDiff), 0o644), side("", 0o644)); !strings.Contains(got, "too large") {
		t.Errorf("large: %.100q", got)
	}
}

// What Diff writes is what git apply makes the new file of.
func TestDiffIsWhatGitApplies(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git")
	}
	long := strings.Repeat("line\n", 30)
	for _, c := range [][2]string{{"a\nb\n", "a\nc\n"}, {"a", "b\n"}, {long + "x\n" + long, long + "y\n" + long + "z"}, {"", "new\n"}, {"\n\n", "\n"}} {
		dir := t.TempDir()
		put(t, dir, map[string]string{"f": c[0], "patch": diffOf(t, "f", side(c[0], 0o644), side(c[1], 0o644))})
		cmd := exec.Command(git, "apply", "patch")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q: %v %s", c, err, out)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, "f")); string(got) != c[1] {
			t.Errorf("%q: got %q", c, got)
		}
	}
}

func FuzzDiff(f *testing.F) {
	f.Add("a/b", "one\n", "two\n")
	f.Fuzz(func(t *testing.T, path, before, after string) {
		got := diffOf(t, path, side(before, 0o644), side(after, 0o644))
		if (got == "") != (before == after) {
			t.Errorf("%q", got)
		}
	})
}
