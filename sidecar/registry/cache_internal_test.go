package registry

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestCacheChangedWhileItIsRead: a file that is written to after it was hashed is
// never whole elsewhere; left alone, it is.
func TestCacheChangedWhileItIsRead(t *testing.T) {
	dir := t.TempDir()
	c, err := OpenCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	body := bytes.Repeat([]byte("archive "), 1<<16)
	sum := sha512.Sum512(body)
	integrity := "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	fetch := func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if err := c.fill(t.Context(), integrity, fetch); err != nil {
		t.Fatal(err)
	}
	for _, touched := range []bool{false, true} {
		a, err := c.open(integrity)
		if err != nil {
			t.Fatal(err)
		}
		half := make([]byte, len(body)/2)
		if _, err := io.ReadFull(a, half); err != nil {
			t.Fatal(err)
		}
		if touched {
			f, err := os.OpenFile(filepath.Join(dir, "sha512", hex.EncodeToString(sum[:])), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = f.WriteAt([]byte("evil"), int64(len(body))-100)
			_ = f.Close()
		}
		rest, err := io.ReadAll(a)
		_ = a.Close()
		if whole := err == nil && len(half)+len(rest) == len(body); whole == touched || touched && !errors.Is(err, errOther) {
			t.Errorf("touched %v: %d bytes, %v", touched, len(half)+len(rest), err)
		}
	}
	if _, err := c.open(integrity); !errors.Is(err, errNotCached) {
		t.Errorf("the spoilt file is still there: %v", err)
	}
	other := "sha512-" + base64.StdEncoding.EncodeToString(make([]byte, 64))
	if err := c.fill(t.Context(), other, fetch); !errors.Is(err, errOther) {
		t.Errorf("other bytes: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "sha512", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
