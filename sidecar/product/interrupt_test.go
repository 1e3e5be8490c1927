package product_test

import (
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
