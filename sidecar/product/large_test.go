package product_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/proctor-project/proctor/sidecar/product"
	"golang.org/x/sys/unix"
)

// gauge is a Sink that measures how much memory is in use.
type gauge struct {
	*product.Encoder
	n    int
	peak uint64
}

func (g *gauge) Entry(e product.Entry) error {
	if g.n++; g.n%20000 == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		g.peak = max(g.peak, m.HeapAlloc)
	}
	return g.Encoder.Entry(e)
}

type counter int64

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }

func TestCaseA3TwoHundredThousandEntries(t *testing.T) {
	if testing.Short() || os.Getuid() != 0 {
		t.Skip("makes 200,000 files in a memory file system")
	}
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=512m,nr_inodes=400000"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	const each = 100_000 // in one directory, and spread over a hundred
	must(t, os.Mkdir(filepath.Join(dir, "one"), 0o755))
	for i := range 100 {
		must(t, os.Mkdir(filepath.Join(dir, fmt.Sprintf("d%d", i)), 0o755))
	}
	for i := range each {
		for _, name := range []string{fmt.Sprintf("one/a-rather-long-name-%d", i), fmt.Sprintf("d%d/%d", i%100, i)} {
			fd, err := unix.Open(filepath.Join(dir, name), unix.O_CREAT|unix.O_WRONLY, 0o644)
			must(t, err)
			unix.Close(fd)
		}
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var size counter
	g := &gauge{Encoder: product.NewEncoder(&size)}
	must(t, product.Walk(context.Background(), openDir(t, dir), product.WalkOptions{}, g))
	sum, err := g.Close()
	must(t, err)
	if !sum.Complete || sum.Entries != 2*each+101 {
		t.Errorf("%+v", sum)
	}
	// The names of the largest directory are held, and little else.
	if used := g.peak - before.HeapAlloc; used > 32<<20 {
		t.Errorf("%d MiB in use", used>>20)
	}
}
