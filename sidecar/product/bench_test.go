package product_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/proctor-project/proctor/sidecar/product"
	"golang.org/x/sys/unix"
)

// The benchmarks compare with other programs in the same run, so that they say
// the same on every machine: x-sha256sum is how many times as fast as one
// sha256sum process over the same warm files, x-cp likewise with cp -a, x-raw is the share of the speed of
// SHA-256 over memory. Run them with
//
//	go test -run '^$' -bench . -benchtime 5x ./sidecar/product

const smallFiles = 50_000

// smallTree makes 50,000 files of 200 to 4,000 bytes in 500 directories.
func smallTree(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	content := make([]byte, 4000)
	for i := range smallFiles {
		sub := filepath.Join(dir, fmt.Sprintf("d%03d", i/100))
		if i%100 == 0 {
			must(b, os.Mkdir(sub, 0o755))
		}
		copy(content, fmt.Sprint(i))
		must(b, os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%02d.txt", i%100)), content[:200+i*37%3800], 0o644))
	}
	return dir
}

// cost is what something took, on the clock and of the processors.
type cost struct{ wall, cpu time.Duration }

// program is the least cost of three runs of a shell command on dir.
func program(b *testing.B, script string, args ...string) cost {
	b.Helper()
	best := cost{time.Hour, time.Hour}
	for range 3 {
		cmd := exec.Command("sh", append([]string{"-c", script}, args...)...)
		start := time.Now()
		if err := cmd.Run(); err != nil {
			b.Skipf("%s: %v", script, err)
		}
		best.wall = min(best.wall, time.Since(start))
		best.cpu = min(best.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	return best
}

// sha256sum is one process over all files of dir.
func sha256sum(b *testing.B, dir string) cost {
	return program(b, `find "$0" -type f -print0 | xargs -0 -n 1000000 sha256sum`, dir)
}

// processor is what this process has used so far.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var r unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// report says how many times as fast as the base the loop was. The processor's
// share says the same where other programs compete for the cores: with two of
// them free, the clock's is twice that.
func report(b *testing.B, base, used cost, unit string) {
	n := float64(b.N)
	b.ReportMetric(float64(base.wall)*n/float64(used.wall), "x-"+unit)
	b.ReportMetric(float64(base.cpu)*n/float64(used.cpu), "x-"+unit+"-cpu")
}

func BenchmarkWalkSmallFiles(b *testing.B) {
	dir := smallTree(b)
	base := sha256sum(b, dir)
	root := openDir(b, dir)
	cpu := processor(b)
	for b.Loop() {
		enc := product.NewEncoder(io.Discard)
		must(b, product.Walk(context.Background(), root, product.WalkOptions{}, enc))
		if sum, err := enc.Close(); err != nil || sum.Entries != smallFiles+500 {
			b.Fatalf("%+v %v", sum, err)
		}
	}
	report(b, base, cost{b.Elapsed(), processor(b) - cpu}, "sha256sum")
}

// Making 50,000 files is the file system's work, so staging is compared with cp.
func BenchmarkStageSmallFiles(b *testing.B) {
	dir, parent := smallTree(b), b.TempDir()
	base := program(b, `cp -a "$0" "$1/cp$$"`, dir, parent)
	root := openDir(b, dir)
	var used cost
	for i := 0; b.Loop(); i++ {
		dst := filepath.Join(parent, fmt.Sprint(i))
		must(b, os.Mkdir(dst, 0o700))
		start, cpu := time.Now(), processor(b)
		enc := product.NewEncoder(io.Discard)
		must(b, product.Stage(context.Background(), root, openDir(b, dst), product.StageOptions{}, enc))
		_, err := enc.Close()
		must(b, err)
		used.wall, used.cpu = used.wall+time.Since(start), used.cpu+processor(b)-cpu
	}
	report(b, base, used, "cp")
}

const largeFile = 1 << 30

func largeTree(b *testing.B, files int) string {
	b.Helper()
	dir := b.TempDir()
	chunk := make([]byte, 1<<20)
	for i := range files {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		must(b, err)
		for j := range largeFile / files / len(chunk) {
			copy(chunk, fmt.Sprint(i, j))
			_, err := f.Write(chunk)
			must(b, err)
		}
		must(b, f.Close())
	}
	return dir
}

// rawSHA256 is the time to hash a gibibyte of memory on one core.
func rawSHA256() time.Duration {
	block := make([]byte, 256<<10)
	best := time.Hour
	for range 3 {
		h := sha256.New()
		start := time.Now()
		for range largeFile / len(block) {
			h.Write(block)
		}
		h.Sum(nil)
		best = min(best, time.Since(start))
	}
	return best
}

func benchmarkLarge(b *testing.B, files int, cores float64) {
	root := openDir(b, largeTree(b, files))
	raw := rawSHA256()
	b.SetBytes(largeFile)
	b.ResetTimer()
	for b.Loop() {
		must(b, product.Walk(context.Background(), root, product.WalkOptions{}, &collector{}))
	}
	b.ReportMetric(float64(raw)/cores*float64(b.N)/float64(b.Elapsed()), "x-raw")
}

func BenchmarkWalkOneLargeFile(b *testing.B)  { benchmarkLarge(b, 1, 1) }
func BenchmarkWalkTwoLargeFiles(b *testing.B) { benchmarkLarge(b, 2, 2) }
