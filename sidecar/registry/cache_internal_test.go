package registry

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// filled is a cache in a directory, and how to fill it.
type filled struct {
	testing.TB
	*Cache
	dir string
}

func fillCache(t testing.TB, dir string, most int64) filled {
	t.Helper()
	c, err := OpenCache(dir, most)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return filled{t, c, dir}
}

// put fills it with bytes, and returns their integrity and file.
func (c filled) put(body []byte) (integrity, file string) {
	c.Helper()
	sum := sha512.Sum512(body)
	integrity = "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	err := c.fill(c.Context(), integrity, func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil })
	if err != nil {
		c.Fatal(err)
	}
	return integrity, filepath.Join(c.dir, "sha512", hex.EncodeToString(sum[:]))
}

// afterFirst runs something once the first bytes have gone out.
type afterFirst struct {
	bytes.Buffer
	run func()
}

func (w *afterFirst) Write(p []byte) (int, error) {
	if w.Len() == 0 && w.run != nil {
		w.run()
	}
	return w.Buffer.Write(p)
}

// TestD3ArchiveIsWholeOnlyIfRight (case D3): a large archive with other bytes,
// from the start or from the middle of sending it, is never whole elsewhere, and
// is not there any more; one that is right is.
func TestD3ArchiveIsWholeOnlyIfRight(t *testing.T) {
	c := fillCache(t, t.TempDir(), MaxCache)
	body := bytes.Repeat([]byte("archive "), 1<<16)
	spoil := func(file string, at int64) {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.WriteAt([]byte("evil"), at)
		_ = f.Close()
	}
	end := int64(len(body)) - 100
	for _, test := range []struct {
		name          string
		before, later func(file string)
		whole         bool
	}{
		{"right", nil, nil, true},
		{"first byte", func(f string) { spoil(f, 0) }, nil, false},
		{"last bytes", func(f string) { spoil(f, end) }, nil, false},
		{"short", func(f string) { _ = os.Truncate(f, end) }, nil, false},
		{"long", func(f string) { _ = os.Truncate(f, end+200) }, nil, false},
		{"last bytes while it is sent", nil, func(f string) { spoil(f, end) }, false},
		{"shortened while it is sent", nil, func(f string) { _ = os.Truncate(f, end) }, false},
		// What went out was right, and so is what follows.
		{"first byte when it is sent", nil, func(f string) { spoil(f, 0) }, true},
	} {
		integrity, file := c.put(body)
		if test.before != nil {
			test.before(file)
		}
		a, err := c.open(integrity)
		if err != nil {
			t.Fatal(err)
		}
		got := afterFirst{}
		if test.later != nil {
			got.run = func() { test.later(file) }
		}
		n, err := a.WriteTo(&got)
		_ = a.Close()
		if test.whole != (err == nil && bytes.Equal(got.Bytes(), body)) || !test.whole && (!errors.Is(err, errOther) || n >= a.size) {
			t.Errorf("%s: %d of %d bytes, %v", test.name, n, a.size, err)
		}
		if _, err := os.Stat(file); (err == nil) != test.whole {
			t.Errorf("%s: it is still there: %v", test.name, err == nil)
		}
		_ = os.Remove(file)
	}
	other := "sha512-" + base64.StdEncoding.EncodeToString(make([]byte, 64))
	err := c.fill(t.Context(), other, func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil })
	if !errors.Is(err, errOther) {
		t.Errorf("other bytes: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(c.dir, "sha512", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestCacheIsBounded: what was not used for the longest makes room, also for
// another supervisor; what one of them gives out stays, and goes once it does not.
func TestCacheIsBounded(t *testing.T) {
	const size = 200 << 10
	dir := t.TempDir()
	one, two := fillCache(t, dir, 3*size), fillCache(t, dir, 3*size)
	body := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, size) }
	var integrities, files [8]string
	for i := range 3 {
		integrities[i], files[i] = one.put(body(i))
		old := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(files[i], old, old); err != nil {
			t.Fatal(err)
		}
	}
	has := func(want ...int) {
		t.Helper()
		for i, f := range files[:] {
			_, err := os.Stat(f)
			if wanted := bytes.ContainsRune([]byte(fmt.Sprint(want)), rune('0'+i)); f != "" && wanted != (err == nil) {
				t.Errorf("archive %d: there is %v, want %v", i, err == nil, want)
			}
		}
	}
	use, err := one.open(integrities[0]) // the oldest, which is used now
	if err != nil {
		t.Fatal(err)
	}
	_ = use.Close()
	integrities[3], files[3] = two.put(body(3))
	has(0, 2, 3)
	earlier := time.Now().Add(-time.Hour)
	if err := os.Chtimes(files[0], earlier, earlier); err != nil {
		t.Fatal(err)
	}
	held, err := one.open(integrities[2])
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-20 * time.Hour)
	if err := os.Chtimes(files[2], old, old); err != nil {
		t.Fatal(err)
	}
	integrities[4], files[4] = two.put(body(4)) // 2 is the oldest, and is held
	has(2, 3, 4)
	var got bytes.Buffer
	if _, err := held.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), body(2)) {
		t.Errorf("what was held: %d bytes, %v", got.Len(), err)
	}
	_ = held.Close()
	integrities[5], files[5] = one.put(body(5))
	has(3, 4, 5)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() { []filled{one, two}[i%2].put(body(100 + i)) })
	}
	all.Wait()
	if left, _ := filepath.Glob(filepath.Join(dir, "sha512", "*")); len(left) != 3 {
		t.Errorf("%d archives are there, 3 fit", len(left))
	}
}
