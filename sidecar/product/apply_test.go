package product_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/proctor-project/proctor/sidecar/product"
	"golang.org/x/sys/unix"
)

// bench is a product with a sealed stage of it.
type sealedStage struct {
	product, stage   string
	baseline, sealed []byte
	baseSum, sealSum [32]byte
	index            func([]byte) ([32]byte, error)
	baseIndex        map[string][32]byte
}

// newSealed stages a product of the given files; agent changes the stage.
func newSealed(t testing.TB, files map[string]string, agent func(stage string)) *sealedStage {
	t.Helper()
	s := &sealedStage{product: t.TempDir(), stage: t.TempDir()}
	put(t, s.product, files)
	s.seal(t, agent)
	return s
}

func (s *sealedStage) seal(t testing.TB, agent func(stage string)) {
	t.Helper()
	var base bytes.Buffer
	m := product.NewManifestWriter(&base)
	must(t, product.Stage(context.Background(), openDir(t, s.product), openDir(t, s.stage), product.StageOptions{}, m))
	var err error
	s.baseSum, err = m.Close()
	must(t, err)
	s.baseline = base.Bytes()
	agent(s.stage)
	var sealed bytes.Buffer
	m = product.NewManifestWriter(&sealed)
	must(t, product.Walk(context.Background(), openDir(t, s.stage), product.WalkOptions{}, m))
	s.sealSum, err = m.Close()
	must(t, err)
	s.sealed = sealed.Bytes()
}

func (s *sealedStage) plan(t testing.TB) (*product.Plan, error) {
	t.Helper()
	return product.PlanApply(context.Background(), product.ApplyInput{
		Product: openDir(t, s.product), Stage: openDir(t, s.stage),
		Baseline: bytes.NewReader(s.baseline), Sealed: bytes.NewReader(s.sealed),
		BaselineSHA256: s.baseSum, SealedSHA256: s.sealSum, IndexDigest: s.index, BaselineIndex: s.baseIndex,
	})
}

func (s *sealedStage) apply(t testing.TB) (product.ApplyResult, error) {
	t.Helper()
	p, err := s.plan(t)
	if err != nil {
		return product.ApplyResult{}, err
	}
	return p.Apply(context.Background(), nil)
}

// applied checks that the product is exactly the sealed tree.
func (s *sealedStage) applied(t testing.TB) {
	t.Helper()
	got, want := walk(t, s.product, product.WalkOptions{}), walk(t, s.stage, product.WalkOptions{})
	if !slices.Equal(got.entries, want.entries) {
		t.Errorf("product:\n%v\nsealed:\n%v", got.entries, want.entries)
	}
}

// everyChange holds one of each kind.
func everyChange(t testing.TB) (map[string]string, func(string)) {
	files := map[string]string{
		"same": "s", "edit": "old", "gone": "x", "dir/gone/deep/f": "x", "file-to-dir": "f", "dir-to-file/a/b": "x", "dir-to-file/c": "y",
		"file-to-link": "f", "dir-to-link/x": "x", "mode": "m", "dmode/f": "x", "big": strings.Repeat("a", 600_000), "q/keep": "k",
	}
	return files, func(stage string) {
		at := func(n string) string { return filepath.Join(stage, n) }
		put(t, stage, map[string]string{"edit": "new", "new/deep/er/f": "n", "new/empty/": "", "big": strings.Repeat("b", 700_000), "new\n\xff": "odd"})
		for _, n := range []string{"gone", "dir/gone", "file-to-dir", "dir-to-file", "file-to-link", "dir-to-link"} {
			must(t, os.RemoveAll(at(n)))
		}
		put(t, stage, map[string]string{"file-to-dir/x/y": "1", "dir-to-file": "now a file"})
		must(t, os.Symlink("/etc/passwd", at("file-to-link")))
		must(t, os.Symlink("q", at("dir-to-link")))
		must(t, os.Symlink("loop", at("loop")))
		must(t, os.Chmod(at("mode"), 0o755))
		must(t, os.Chmod(at("dmode"), 0o700))
		must(t, os.Chmod(at("new/empty"), 0o555))
	}
}

func TestApplyBringsEveryKindOfChange(t *testing.T) {
	files, agent := everyChange(t)
	s := newSealed(t, files, agent)
	p, err := s.plan(t)
	must(t, err)
	calls := 0
	r, err := p.Apply(context.Background(), func(done, total int, path string) {
		calls++
		if done != calls || total != len(p.Changes()) || path == "" {
			t.Errorf("progress %d %d %q", done, total, path)
		}
	})
	must(t, err)
	if r.Written+r.Removed != len(p.Changes()) || len(r.Kept) != 0 || calls != len(p.Changes()) {
		t.Errorf("%+v of %d, %d calls", r, len(p.Changes()), calls)
	}
	s.applied(t)
	// Once more changes nothing.
	if p, err := s.plan(t); err != nil || len(p.Changes()) != 0 {
		t.Errorf("again: %v", err)
	}
}

func TestCaseB12ConflictsAreAllListedAndNothingWritten(t *testing.T) {
	files, agent := everyChange(t)
	for name, c := range map[string]struct {
		operator func(p string)
		want     []string
	}{
		"edited":          {func(p string) { put(t, p, map[string]string{"edit": "mine", "big": "mine"}) }, []string{"big", "edit"}},
		"removed":         {func(p string) { must(t, os.Remove(filepath.Join(p, "edit"))) }, []string{"edit"}},
		"already there":   {func(p string) { put(t, p, map[string]string{"new/deep/er/f": "mine"}) }, []string{"new/deep/er/f"}},
		"removed, edited": {func(p string) { put(t, p, map[string]string{"gone": "mine"}) }, []string{"gone"}},
		"mode":            {func(p string) { must(t, os.Chmod(filepath.Join(p, "edit"), 0o755)) }, []string{"edit"}},
		"link": {func(p string) {
			must(t, os.RemoveAll(filepath.Join(p, "dir")))
			must(t, os.Symlink("/etc", filepath.Join(p, "dir")))
		}, []string{"dir/gone", "dir/gone/deep", "dir/gone/deep/f"}},
		"unknown in a directory that becomes a file": {func(p string) { put(t, p, map[string]string{"dir-to-file/mine": "x"}) }, []string{"dir-to-file/mine"}},
		"fifo": {func(p string) {
			must(t, os.Remove(filepath.Join(p, "edit")))
			must(t, unix.Mkfifo(filepath.Join(p, "edit"), 0o644))
		}, []string{"edit"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSealed(t, files, agent)
			c.operator(s.product)
			before := walk(t, s.product, product.WalkOptions{})
			_, err := s.apply(t)
			var conflicts *product.ConflictError
			if !errors.As(err, &conflicts) {
				t.Fatalf("error %v", err)
			}
			var got []string
			for _, c := range conflicts.Conflicts {
				got = append(got, c.Path)
			}
			if !slices.Equal(got, c.want) || conflicts.Total != len(c.want) {
				t.Errorf("conflicts %q, want %q", conflicts.Conflicts, c.want)
			}
			if after := walk(t, s.product, product.WalkOptions{}); !slices.Equal(before.entries, after.entries) {
				t.Error("something was written")
			}
		})
	}
}

func TestApplyLeavesOtherPathsAlone(t *testing.T) {
	files, agent := everyChange(t)
	s := newSealed(t, files, agent)
	put(t, s.product, map[string]string{"same": "operator's", "mine/new": "x", "dir/gone/kept": "left out of the stage", "q/other": "y"})
	r, err := s.apply(t)
	must(t, err)
	if !slices.Equal(r.Kept, []string{"dir/gone"}) {
		t.Errorf("kept %q", r.Kept)
	}
	for name, want := range map[string]string{"same": "operator's", "mine/new": "x", "dir/gone/kept": "left out of the stage", "edit": "new"} {
		if got, err := os.ReadFile(filepath.Join(s.product, name)); string(got) != want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

func TestCaseB12StageChangedSinceTheSeal(t *testing.T) {
	files, agent := everyChange(t)
	for name, tamper := range map[string]func(stage string){
		"content": func(p string) { put(t, p, map[string]string{"edit": "nEw"}) },
		"link": func(p string) {
			must(t, os.Remove(filepath.Join(p, "loop")))
			must(t, os.Symlink("pool", filepath.Join(p, "loop")))
		},
		"mode": func(p string) { must(t, os.Chmod(filepath.Join(p, "edit"), 0o755)) },
		"gone": func(p string) { must(t, os.Remove(filepath.Join(p, "edit"))) },
		"type": func(p string) {
			must(t, os.Remove(filepath.Join(p, "edit")))
			must(t, os.Symlink("new", filepath.Join(p, "edit")))
		},
	} {
		s := newSealed(t, files, agent)
		before := walk(t, s.product, product.WalkOptions{})
		tamper(s.stage)
		if _, err := s.apply(t); err == nil || !strings.Contains(err.Error(), "changed since it was sealed") {
			t.Errorf("%s: %v", name, err)
		}
		if after := walk(t, s.product, product.WalkOptions{}); !slices.Equal(before.entries, after.entries) {
			t.Errorf("%s: something was written", name)
		}
	}
	// Between the plan and the write.
	s := newSealed(t, files, agent)
	p, err := s.plan(t)
	must(t, err)
	put(t, s.stage, map[string]string{"edit": "nEw"})
	if _, err := p.Apply(context.Background(), nil); !errors.Is(err, product.ErrSealed) {
		t.Errorf("error %v", err)
	}
	if got, _ := os.ReadFile(filepath.Join(s.product, "edit")); string(got) != "old" {
		t.Errorf("wrote %q", got)
	}
}

func TestCaseB12ProductChangedAfterThePlan(t *testing.T) {
	for name, operator := range map[string]func(p string){
		"a":    func(p string) { put(t, p, map[string]string{"a": "mine"}) },
		"c":    func(p string) { put(t, p, map[string]string{"c": "mine"}) },
		"gone": func(p string) { put(t, p, map[string]string{"gone": "mine"}) },
	} {
		s := newSealed(t, map[string]string{"a": "old", "b": "old", "gone": "old"}, func(p string) {
			put(t, p, map[string]string{"a": "new", "b": "new", "c": "new"})
			must(t, os.Remove(filepath.Join(p, "gone")))
		})
		p, err := s.plan(t)
		must(t, err)
		operator(s.product)
		_, err = p.Apply(context.Background(), nil)
		var inc *product.IncompleteError
		if !errors.As(err, &inc) || !slices.Contains(inc.Missing, name) {
			t.Errorf("%s: error %v", name, err)
		}
		if got, _ := os.ReadFile(filepath.Join(s.product, name)); string(got) != "mine" {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func TestApplyRefusesOtherManifests(t *testing.T) {
	s := newSealed(t, map[string]string{"a": "1"}, func(p string) { put(t, p, map[string]string{"a": "2"}) })
	for _, change := range []func(*sealedStage){
		func(s *sealedStage) { s.sealSum[0] ^= 1 }, func(s *sealedStage) { s.baseSum = [32]byte{} },
		func(s *sealedStage) { s.sealed = s.baseline }, func(s *sealedStage) { s.baseline = nil },
	} {
		bad := *s
		change(&bad)
		if _, err := bad.apply(t); !errors.Is(err, product.ErrDigest) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := s.apply(t); err != nil {
		t.Errorf("positive control: %v", err)
	}
}

func TestApplyGivesNoSetIDAndTheDirectorysOwner(t *testing.T) {
	s := newSealed(t, map[string]string{"d/old": "1", "d/mine": "1"}, func(p string) {
		put(t, p, map[string]string{"d/new": "x", "d/sub/f": "x", "d/old": "2", "d/mine": "2"})
		must(t, os.Symlink("x", filepath.Join(p, "d/l")))
		must(t, os.Chmod(filepath.Join(p, "d/new"), 0o755|os.ModeSetuid|os.ModeSetgid))
	})
	if os.Getuid() == 0 {
		must(t, os.Chown(filepath.Join(s.product, "d"), 12345, 23456))
		must(t, os.Chown(filepath.Join(s.product, "d/mine"), 34567, 34567))
	}
	_, err := s.apply(t)
	must(t, err)
	fi, err := os.Stat(filepath.Join(s.product, "d/new"))
	must(t, err)
	if fi.Mode() != 0o755 {
		t.Errorf("mode %v", fi.Mode())
	}
	if os.Getuid() != 0 {
		return
	}
	for name, uid := range map[string]uint32{"d/new": 12345, "d/sub": 12345, "d/sub/f": 12345, "d/l": 12345, "d/old": 0, "d/mine": 34567} {
		fi, err := os.Lstat(filepath.Join(s.product, name))
		must(t, err)
		if got := fi.Sys().(*syscall.Stat_t).Uid; got != uid {
			t.Errorf("%s belongs to %d", name, got)
		}
	}
}
