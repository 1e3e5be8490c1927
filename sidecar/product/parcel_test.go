package product_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/proctor-project/proctor/sidecar/product"
)

// parcelOf packs a directory, and says what its stream's digest is.
func parcelOf(t testing.TB, dir string) (parcel []byte, digest string) {
	t.Helper()
	b, _ := stream(t, dir)
	var out bytes.Buffer
	must(t, product.Pack(context.Background(), openDir(t, dir), bytes.NewReader(b), &out))
	sum := sumOf(b)
	return out.Bytes(), hex.EncodeToString(sum[:])
}

func unpack(t testing.TB, parcel []byte, opts product.UnpackOptions) (string, error) {
	t.Helper()
	dst := t.TempDir()
	kept, err := os.OpenFile(filepath.Join(t.TempDir(), "stream"), os.O_CREATE|os.O_RDWR, 0o600)
	must(t, err)
	defer kept.Close()
	_, err = product.Unpack(context.Background(), bytes.NewReader(parcel), openDir(t, dst), kept, opts)
	return dst, err
}

// awkward is a tree whose order on the stream is not that of its directories.
func awkward(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, map[string]string{
		"a/x": "one", "a-b/y": "two", "a.c": "three", "a/deep/er/z": "four", "empty/": "", "none": "",
		"large": string(bytes.Repeat([]byte("0123456789abcdef"), 40_000)),
	})
	must(t, os.Symlink("../../a", filepath.Join(dir, "a", "link")))
	must(t, os.Chmod(filepath.Join(dir, "a", "x"), 0o755))
	must(t, os.Chmod(filepath.Join(dir, "a", "deep"), 0o500))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "a", "deep"), 0o700) })
	return dir
}

// TestParcel: what is unpacked is the tree that was packed, byte for byte.
func TestParcel(t *testing.T) {
	src := awkward(t)
	parcel, digest := parcelOf(t, src)
	_, sum := stream(t, src)
	if _, err := unpack(t, parcel, product.UnpackOptions{Tree: digest, SkipSpecial: true}); !errors.Is(err, product.ErrParcel) {
		t.Errorf("another tree than was sealed: %v", err)
	}
	dst, err := unpack(t, parcel, product.UnpackOptions{Tree: sum.Tree, SkipSpecial: true})
	must(t, err)
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dst, "a", "deep"), 0o700) })
	want, _ := stream(t, src)
	got, _ := stream(t, dst)
	if !bytes.Equal(want, got) {
		t.Error("the unpacked tree is another one")
	}
}

// TestParcelIsExact: no other byte, no missing byte, no more bytes.
func TestParcelIsExact(t *testing.T) {
	src := t.TempDir()
	put(t, src, map[string]string{"a/x": "one", "b": "two"})
	must(t, os.Symlink("x", filepath.Join(src, "a", "l")))
	parcel, digest := parcelOf(t, src)
	opts := product.UnpackOptions{StreamSHA256: digest}
	if _, err := unpack(t, parcel, opts); err != nil {
		t.Fatal(err) // the positive control
	}
	for i := range parcel {
		changed := bytes.Clone(parcel)
		changed[i] ^= 1
		if _, err := unpack(t, changed, opts); !errors.Is(err, product.ErrParcel) {
			t.Fatalf("byte %d of %d changed: %v", i, len(parcel), err)
		}
		if _, err := unpack(t, parcel[:i], opts); !errors.Is(err, product.ErrParcel) {
			t.Fatalf("cut at %d of %d: %v", i, len(parcel), err)
		}
	}
	if _, err := unpack(t, append(bytes.Clone(parcel), 0), opts); !errors.Is(err, product.ErrParcel) {
		t.Errorf("one byte more: %v", err)
	}
	opts.StreamSHA256 = hex.EncodeToString(make([]byte, 32))
	if _, err := unpack(t, parcel, opts); !errors.Is(err, product.ErrParcel) {
		t.Errorf("another tree than was announced: %v", err)
	}
}

// TestParcelOfOtherThings: a special file and a file over the limit are refused
// on the way in; on the way back the special file stays out.
func TestParcelOfOtherThings(t *testing.T) {
	src := t.TempDir()
	put(t, src, map[string]string{"f": "content"})
	must(t, syscall.Mkfifo(filepath.Join(src, "fifo"), 0o600))
	must(t, os.Chmod(filepath.Join(src, "f"), os.ModeSetuid|0o755))
	parcel, digest := parcelOf(t, src)
	if _, err := unpack(t, parcel, product.UnpackOptions{StreamSHA256: digest}); !errors.Is(err, product.ErrParcel) {
		t.Errorf("a FIFO on the way in: %v", err)
	}
	if _, err := unpack(t, parcel, product.UnpackOptions{StreamSHA256: digest, SkipSpecial: true, Limits: product.Limits{FileBytes: 3}}); !errors.Is(err, product.ErrParcel) {
		t.Errorf("a file over the limit: %v", err)
	}
	_, sum := stream(t, src)
	if _, err := unpack(t, parcel, product.UnpackOptions{Tree: digest, SkipSpecial: true}); !errors.Is(err, product.ErrParcel) {
		t.Errorf("another tree than was sealed: %v", err)
	}
	dst, err := unpack(t, parcel, product.UnpackOptions{Tree: sum.Tree, SkipSpecial: true})
	must(t, err)
	if _, err := os.Lstat(filepath.Join(dst, "fifo")); !os.IsNotExist(err) {
		t.Errorf("the FIFO came along: %v", err)
	}
	info, err := os.Stat(filepath.Join(dst, "f"))
	must(t, err)
	if info.Mode()&os.ModeSetuid != 0 {
		t.Error("the setuid bit came along")
	}
}

// TestPackOfAChangedTree: a tree that is not its stream's any more is no parcel.
func TestPackOfAChangedTree(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"content": func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), []byte("CONTENT"), 0o644) },
		"link": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "f")), os.Symlink("content", filepath.Join(dir, "f")))
		},
		"longer": func(dir string) error { return os.WriteFile(filepath.Join(dir, "f"), []byte("content+"), 0o644) },
		"gone":   func(dir string) error { return os.Remove(filepath.Join(dir, "f")) },
	} {
		src := t.TempDir()
		put(t, src, map[string]string{"f": "content"})
		b, _ := stream(t, src)
		must(t, change(src))
		if err := product.Pack(context.Background(), openDir(t, src), bytes.NewReader(b), &bytes.Buffer{}); err == nil {
			t.Errorf("%s: packed", name)
		}
	}
}
