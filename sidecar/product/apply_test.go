package product_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

func TestCaseB12InterruptedAnywhereAndCompleted(t *testing.T) {
	files, agent := everyChange(t)
	total := 0
	for stop := 0; stop == 0 || stop < total; stop++ {
		s := newSealed(t, files, agent)
		p, err := s.plan(t)
		must(t, err)
		total = len(p.Changes())
		ctx, cancel := context.WithCancel(context.Background())
		if stop == 0 {
			cancel()
		}
		_, err = p.Apply(ctx, func(done, _ int, _ string) {
			if done == stop {
				cancel()
			}
		})
		cancel()
		var inc *product.IncompleteError
		if !errors.As(err, &inc) && stop < total-1 {
			t.Fatalf("stopped after %d of %d: %v", stop, total, err)
		}
		if inc != nil && (inc.Total != total-stop || len(inc.Missing) != inc.Total) {
			t.Errorf("stopped after %d of %d: %d missing", stop, total, inc.Total)
		}
		if _, err := s.apply(t); err != nil {
			t.Fatalf("stopped after %d, again: %v", stop, err)
		}
		s.applied(t)
	}
}

func TestCaseB12KilledHalfWay(t *testing.T) {
	files, agent := everyChange(t)
	if dir := os.Getenv("PRODUCT_TEST_KILLED"); dir != "" {
		s := &sealedStage{product: filepath.Join(dir, "p"), stage: filepath.Join(dir, "s")}
		var err error
		s.baseline, err = os.ReadFile(filepath.Join(dir, "base"))
		must(t, err)
		s.sealed, err = os.ReadFile(filepath.Join(dir, "sealed"))
		must(t, err)
		s.baseSum, s.sealSum = sumOf(s.baseline), sumOf(s.sealed)
		p, err := s.plan(t)
		must(t, err)
		p.Apply(context.Background(), func(done, total int, _ string) {
			if done == total/2 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		})
		t.Fatal("survived")
	}
	dir := t.TempDir()
	s := &sealedStage{product: filepath.Join(dir, "p"), stage: filepath.Join(dir, "s")}
	must(t, os.Mkdir(s.product, 0o755))
	must(t, os.Mkdir(s.stage, 0o700))
	put(t, s.product, files)
	s.seal(t, agent)
	must(t, os.WriteFile(filepath.Join(dir, "base"), s.baseline, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "sealed"), s.sealed, 0o600))
	if out, killed := runChild(t, "PRODUCT_TEST_KILLED="+dir); !killed {
		t.Fatalf("the child was not killed: %s", out)
	}
	got := walk(t, s.product, product.WalkOptions{})
	if slices.Equal(got.entries, walk(t, s.stage, product.WalkOptions{}).entries) {
		t.Fatal("nothing is left to do")
	}
	_, err := s.apply(t)
	must(t, err)
	s.applied(t)
}

func TestCaseB12LeftoversOfAKilledRunAreCleared(t *testing.T) {
	files := map[string]string{"a": "old", "d/x": "1"}
	s := newSealed(t, files, func(p string) {
		put(t, p, map[string]string{"a": "new"})
		must(t, os.RemoveAll(filepath.Join(p, "d")))
		put(t, p, map[string]string{"d": "file"})
	})
	// The temporary names follow from the seal and the path.
	for path, make := range map[string]func(string) error{
		"a": func(n string) error { return os.WriteFile(n, []byte("half"), 0o600) },
		"d": func(n string) error { return os.Mkdir(n, 0o700) },
	} {
		sum := sumOf(append(s.sealSum[:len(s.sealSum):len(s.sealSum)], path...))
		must(t, make(filepath.Join(s.product, fmt.Sprintf(".proctor-apply-%x", sum[:12]))))
	}
	_, err := s.apply(t)
	must(t, err)
	s.applied(t)
}

func TestCaseB12DiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root for a small file system")
	}
	s := &sealedStage{product: t.TempDir(), stage: t.TempDir()}
	must(t, unix.Mount("tmpfs", s.product, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { unix.Unmount(s.product, unix.MNT_DETACH) })
	put(t, s.product, map[string]string{"a": "1"})
	s.seal(t, func(p string) {
		for i := range 8 {
			put(t, p, map[string]string{fmt.Sprintf("f%d", i): strings.Repeat("x", 300_000)})
		}
	})
	_, err := s.apply(t)
	var inc *product.IncompleteError
	if !errors.As(err, &inc) || !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("error %v", err)
	}
	if inc.Total < 4 || !slices.Contains(inc.Missing, "f7") || slices.Contains(inc.Missing, "f0") {
		t.Errorf("missing %q", inc.Missing)
	}
	if n := names(walk(t, s.product, product.WalkOptions{}).entries); strings.Contains(n, ".proctor-apply") {
		t.Errorf("left behind: %s", n)
	}
	must(t, unix.Mount("tmpfs", s.product, "tmpfs", unix.MS_REMOUNT, "size=8m"))
	_, err = s.apply(t)
	must(t, err)
	s.applied(t)
}

func TestCaseB12ApplyTouchesNothingOutside(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, map[string]string{"keep": "canary"})
	before := walk(t, outside, product.WalkOptions{})
	naive, wrote := false, 0
	for range 60 {
		s := newSealed(t, map[string]string{"d/keep": "inside"}, func(p string) {
			for i := range 20 {
				put(t, p, map[string]string{fmt.Sprintf("d/f%d", i): "evil"})
			}
		})
		d, lure := filepath.Join(s.product, "d"), filepath.Join(s.product, "lure")
		must(t, os.Symlink(outside, lure))
		p, err := s.plan(t)
		must(t, err)
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, lure, unix.RENAME_EXCHANGE)
				}
			}
		}()
		r, _ := p.Apply(context.Background(), nil)
		wrote += r.Written
		if b, err := os.ReadFile(filepath.Join(d, "keep")); err == nil && string(b) == "canary" {
			naive = true // a path leads outside
		}
		close(stop)
		<-stopped
		if after := walk(t, outside, product.WalkOptions{}); !slices.Equal(before.entries, after.entries) {
			t.Fatalf("outside is now %v", after.entries)
		}
	}
	if !naive || wrote == 0 {
		t.Errorf("the attack never worked by path (%v), or nothing was written (%d)", naive, wrote)
	}
}

func TestApplyAsAnOrdinaryUser(t *testing.T) {
	asNobody(t, func(t *testing.T, _ string) {
		files, agent := everyChange(t)
		s := newSealed(t, files, agent)
		_, err := s.apply(t)
		must(t, err)
		s.applied(t)
		t.Cleanup(func() {
			os.Chmod(filepath.Join(s.product, "new/empty"), 0o755)
			os.Chmod(filepath.Join(s.stage, "new/empty"), 0o755)
		})
	})
}

func TestApplyRefusesASpecialFile(t *testing.T) {
	s := newSealed(t, map[string]string{"a": "1"}, func(p string) { must(t, unix.Mkfifo(filepath.Join(p, "pipe"), 0o644)) })
	if _, err := s.apply(t); err == nil || !strings.Contains(err.Error(), `"pipe": a fifo cannot be applied`) {
		t.Errorf("error %v", err)
	}
}
