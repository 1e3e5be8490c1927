package audit_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/audit"
	"github.com/proctor-project/proctor/sidecar/product"
)

// The operator runs git status while the agent commits; and an index that means
// something else is a conflict.
func TestCaseB12IndexRewrittenByStatus(t *testing.T) {
	src := t.TempDir()
	git(t, src, "init", "-q")
	write(t, src, map[string]string{"a": "1", "b": "2"})
	git(t, src, "add", ".")
	git(t, src, "commit", "-q", "-m", "x")
	s := stageOf(t, src)
	s.write(map[string]string{"a": "agent's"})
	git(t, s.stage, "commit", "-q", "-a", "-m", "agent")

	index := filepath.Join(src, ".git/index")
	before, err := os.ReadFile(index)
	must(t, err)
	for _, name := range []string{"a", "b"} {
		old := time.Unix(1_000_000, 0)
		must(t, os.Chtimes(filepath.Join(src, name), old, old))
	}
	git(t, src, "status")
	after, err := os.ReadFile(index)
	must(t, err)
	if bytes.Equal(before, after) {
		t.Fatal("status did not rewrite the index")
	}

	var base, sealed bytes.Buffer
	baseSum, _, err := product.ManifestOf(bytes.NewReader(s.baseline), &base, product.StreamLimits{})
	must(t, err)
	sealSum, _, err := product.ManifestOf(bytes.NewReader(s.stream()), &sealed, product.StreamLimits{})
	must(t, err)
	indexes, err := audit.IndexDigests(product.NewDecoder(bytes.NewReader(s.baseline), product.StreamLimits{}))
	must(t, err)
	if len(indexes) != 1 {
		t.Fatalf("indexes %v", indexes)
	}
	plan := func(digest func([]byte) ([32]byte, error)) (*product.Plan, error) {
		p, err := os.Open(src)
		must(t, err)
		st, err := os.Open(s.stage)
		must(t, err)
		t.Cleanup(func() { p.Close(); st.Close() })
		return product.PlanApply(context.Background(), product.ApplyInput{
			Product: p, Stage: st, Baseline: bytes.NewReader(base.Bytes()), Sealed: bytes.NewReader(sealed.Bytes()),
			BaselineSHA256: baseSum, SealedSHA256: sealSum, IndexDigest: digest, BaselineIndex: indexes,
		})
	}
	var conflict *product.ConflictError
	if _, err := plan(nil); !errors.As(err, &conflict) || conflict.Total != 1 || conflict.Conflicts[0].Path != ".git/index" {
		t.Errorf("positive control: %v", err)
	}
	p, err := plan(audit.IndexDigest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if out := git(t, src, "status", "--porcelain"); out != "" {
		t.Errorf("status after apply: %q", out)
	}
	if out := git(t, src, "log", "--format=%s"); out != "agent\nx\n" {
		t.Errorf("log: %q", out)
	}
	git(t, src, "fsck", "--strict")
	// An index that means something else.
	write(t, src, map[string]string{"c": "operator's"})
	git(t, src, "add", "c")
	if _, err := plan(audit.IndexDigest); !errors.As(err, &conflict) || conflict.Total != 1 {
		t.Errorf("an index with another file: %v", err)
	}
}
