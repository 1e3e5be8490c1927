package product_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/proctor-project/proctor/sidecar/product"
)

// collector is a Sink that keeps everything.
type collector struct {
	entries []product.Entry
	facts   []product.Fact
}

func (c *collector) Entry(e product.Entry) error { c.entries = append(c.entries, e); return nil }
func (c *collector) Fact(f product.Fact) error   { c.facts = append(c.facts, f); return nil }

func (c *collector) entry(t *testing.T, path string) product.Entry {
	t.Helper()
	for _, e := range c.entries {
		if e.Path == path {
			return e
		}
	}
	t.Fatalf("no entry %q among %d", path, len(c.entries))
	return product.Entry{}
}

func (c *collector) has(path string) bool {
	for _, e := range c.entries {
		if e.Path == path {
			return true
		}
	}
	return false
}

func (c *collector) kinds(path string) (kinds []product.FactKind) {
	for _, f := range c.facts {
		if f.Path == path {
			kinds = append(kinds, f.Kind)
		}
	}
	return kinds
}

func openDir(t testing.TB, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func walk(t testing.TB, dir string, opts product.WalkOptions) *collector {
	t.Helper()
	var c collector
	if err := product.Walk(context.Background(), openDir(t, dir), opts, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

// stream is the whole stream of a walk, and its summary.
func stream(t testing.TB, dir string) ([]byte, product.Summary) {
	t.Helper()
	var buf bytes.Buffer
	enc := product.NewEncoder(&buf)
	if err := product.Walk(context.Background(), openDir(t, dir), product.WalkOptions{}, enc); err != nil {
		t.Fatal(err)
	}
	sum, err := enc.Close()
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes(), sum
}

func decode(b []byte) (c collector, sum product.Summary, err error) {
	dec := product.NewDecoder(bytes.NewReader(b), product.StreamLimits{})
	for {
		item, err := dec.Next()
		if err == io.EOF {
			sum, err = dec.Summary()
			return c, sum, err
		}
		if err != nil {
			return c, sum, err
		}
		switch {
		case item.Entry != nil:
			c.entries = append(c.entries, *item.Entry)
		case item.Fact != nil:
			c.facts = append(c.facts, *item.Fact)
		}
	}
}

// put writes files: a name that ends with "/" is a directory, "a -> b" a link.
func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if name[len(name)-1] == '/' {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(content), 0o644))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func stageTo(t testing.TB, src, dst string, opts product.StageOptions) (*collector, error) {
	t.Helper()
	var c collector
	err := product.Stage(context.Background(), openDir(t, src), openDir(t, dst), opts, &c)
	return &c, err
}

func names(entries []product.Entry) string {
	var b bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&b, "%s ", e.Path)
	}
	return b.String()
}

func sumOf(b []byte) [32]byte { return sha256.Sum256(b) }

// runChild runs the calling test again in a process of its own.
func runChild(t *testing.T, env string) (out string, killed bool) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), env)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return string(b), false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return string(b), ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
