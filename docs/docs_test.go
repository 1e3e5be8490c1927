package docs_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = ".."

func pages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	return append(pages, top...)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestREADMECommands runs what the README tells a newcomer to run. `make test`
// is what runs this test: of that one it is enough that make knows it.
func TestREADMECommands(t *testing.T) {
	_, start, ok := strings.Cut(read(t, filepath.Join(root, "README.md")), "## Start")
	if !ok {
		t.Fatal("README has no section Start")
	}
	block := strings.Split(start, "```")[1]
	if got := strings.Fields(block); strings.Join(got, " ") != "make demo make test" {
		t.Fatalf("README's commands are %q", block)
	}
	if out, err := exec.Command("make", "-C", root, "-n", "test").CombinedOutput(); err != nil {
		t.Errorf("make -n test: %v\n%s", err, out)
	}
	out, err := exec.Command("make", "-C", root, "demo").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "all came out as told") {
		t.Errorf("make demo: %v\n%s", err, out)
	}
	for _, line := range []string{
		"find the key and the control state   no: nothing there",
		"  git-hook               .git/hooks/post-checkout       trap, new",
		"FAIL (exit 1): 1 finding is not approved; check unit failed: exit 1",
		"PASS (exit 0): ",
		"decision   not approved: nothing is recorded for this path",
		"  | export MODE=dev",
		"PASS (exit 0): 46 entries, 1 check, 1 approved finding",
		"genuine seal, verdict PASS (exit 0)",
	} {
		if !strings.Contains(string(out), line) {
			t.Errorf("the README shows %q, and the demo does not print it", line)
		}
	}
}

// TestLinksLeadSomewhere follows every relative link.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: link to %s: %v", page, m[1], err)
			}
		}
	}
}

// TestNamedTestsExist holds every test that the documentation names against the
// code, subtests included: a claim without its test is no claim.
func TestNamedTestsExist(t *testing.T) {
	code := goCode(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)(?:/([^`]+))?`")
	total := 0
	for _, page := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(read(t, page), -1) {
			total++
			if !strings.Contains(code, "func "+m[1]+"(") {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
			for sub := range strings.SplitSeq(m[2], "/") {
				if sub != "" && !strings.Contains(code, `"`+strings.ReplaceAll(sub, "_", " ")+`"`) && !strings.Contains(code, `"`+sub+`"`) {
					t.Errorf("%s names subtest %q of %s, which does not exist", page, sub, m[1])
				}
			}
		}
	}
	if total < 20 {
		t.Errorf("the documentation names %d tests only", total)
	}
}

func goCode(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		all.WriteString(read(t, path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestRooms: the house plan has each directory of packages once.
func TestRooms(t *testing.T) {
	_, plan, ok := strings.Cut(read(t, "architecture.md"), "## Rooms\n\n```\n")
	if !ok {
		t.Fatal("architecture.md has no rooms")
	}
	plan, _, _ = strings.Cut(plan, "\n```")
	named := map[string]int{}
	house := ""
	for line := range strings.SplitSeq(plan, "\n") {
		for i, word := range strings.Fields(line) {
			room, isRoom := strings.CutSuffix(word, "/")
			switch {
			case i == 0 && isRoom && !strings.HasPrefix(line, " "):
				house = room
			case !isRoom:
				continue
			case strings.HasPrefix(line, " "):
				named[house+"/"+room]++
			}
		}
	}
	for _, house := range []string{"keys", "sandbox", "sidecar"} {
		all, err := os.ReadDir(filepath.Join(root, house))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			room := house + "/" + e.Name()
			if e.IsDir() && e.Name() != "testdata" && named[room] != 1 {
				t.Errorf("%s is in the plan %d times", room, named[room])
			}
			delete(named, room)
		}
	}
	for room := range named {
		if _, err := os.Stat(filepath.Join(root, room)); err != nil {
			t.Errorf("the plan has %s, and there is none", room)
		}
	}
}

// TestNothingIsPlaceheld refuses a page that is not finished.
func TestNothingIsPlaceheld(t *testing.T) {
	for _, page := range pages(t) {
		if m := regexp.MustCompile(`@[A-Z]+@|TODO|TBD|FIXME`).FindString(read(t, page)); m != "" {
			t.Errorf("%s holds %s", page, m)
		}
	}
}
