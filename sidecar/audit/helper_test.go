package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/product"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// session is a staged product that an agent may change.
type session struct {
	t        testing.TB
	stage    string
	baseline []byte
}

// newSession stages a product of the given files. A value that begins with "->"
// is a link's target, a name that ends with "/" a directory.
func newSession(t testing.TB, files map[string]string) *session {
	t.Helper()
	src := t.TempDir()
	write(t, src, files)
	return stageOf(t, src)
}

func stageOf(t testing.TB, src string) *session {
	t.Helper()
	s := &session{t: t, stage: t.TempDir()}
	from, err := os.Open(src)
	must(t, err)
	defer from.Close()
	to, err := os.Open(s.stage)
	must(t, err)
	defer to.Close()
	var buf bytes.Buffer
	enc := product.NewEncoder(&buf)
	must(t, product.Stage(context.Background(), from, to, product.StageOptions{Extractor: audit.NewExtractor()}, enc))
	_, err = enc.Close()
	must(t, err)
	s.baseline = buf.Bytes()
	return s
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for n := range files {
			if !yield(n) {
				return
			}
		}
	}) {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		target, isLink := strings.CutPrefix(files[name], "->")
		switch {
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(path, 0o755))
		case isLink:
			os.Remove(path)
			must(t, os.Symlink(target, path))
		default:
			must(t, os.WriteFile(path, []byte(files[name]), 0o644))
		}
	}
}

func (s *session) write(files map[string]string) { s.t.Helper(); write(s.t, s.stage, files) }

func (s *session) path(name string) string { return filepath.Join(s.stage, name) }

// stream is the final tree's.
func (s *session) stream() []byte {
	s.t.Helper()
	root, err := os.Open(s.stage)
	must(s.t, err)
	defer root.Close()
	var buf bytes.Buffer
	enc := product.NewEncoder(&buf)
	must(s.t, product.Walk(context.Background(), root, product.WalkOptions{Extractor: audit.NewExtractor()}, enc))
	_, err = enc.Close()
	must(s.t, err)
	return buf.Bytes()
}

func (s *session) judge(in audit.Input) *audit.Result {
	s.t.Helper()
	in.Baseline = product.NewDecoder(bytes.NewReader(s.baseline), product.StreamLimits{})
	in.Final = product.NewDecoder(bytes.NewReader(s.stream()), product.StreamLimits{})
	r, err := audit.Judge(in)
	must(s.t, err)
	return r
}

// lines shows findings and reviews, one "class kind path status" each.
func lines(r *audit.Result) (findings, reviews []string) {
	for _, f := range r.Findings {
		findings = append(findings, fmt.Sprintf("%s %s %s %s", f.Class, f.Kind, f.RawPath(), f.Status))
	}
	for _, v := range r.Reviews {
		reviews = append(reviews, fmt.Sprintf("%s %s %s %s", v.Class, v.Kind, v.RawPath(), v.Status))
	}
	return findings, reviews
}

func expect(t *testing.T, r *audit.Result, findings, reviews []string) {
	t.Helper()
	f, v := lines(r)
	if !slices.Equal(f, findings) {
		t.Errorf("findings:\n got %q\nwant %q", f, findings)
	}
	if !slices.Equal(v, reviews) {
		t.Errorf("reviews:\n got %q\nwant %q", v, reviews)
	}
	if (r.Unapproved() > 0) != (len(findings) > 0) {
		t.Errorf("not approved: %d", r.Unapproved())
	}
}

// git runs git in dir, away from every configuration but the repository's own.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	exe, err := exec.LookPath("git")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("git is needed")
		}
		t.Skip("no git")
	}
	cmd := exec.Command(exe, args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.test", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.test",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", args, err, out)
	}
	return string(out)
}
