package home

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/sandbox/sandboxtest/need"
	"github.com/proctor-project/proctor/sidecar/wire"
)

func newHome(t *testing.T) *Home {
	t.Helper()
	h, err := Open(filepath.Join(t.TempDir(), "a", "home"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Make(); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestT7DirectoriesAndFilesArePrivate holds whatever the umask is.
func TestT7DirectoriesAndFilesArePrivate(t *testing.T) {
	dir := t.TempDir()
	old := unix.Umask(0)
	defer unix.Umask(old)
	h, err := Open(filepath.Join(dir, "a", "home"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Make(); err != nil {
		t.Fatal(err)
	}
	s, err := h.NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Unlock() }()
	for path, want := range map[string]os.FileMode{
		h.Dir(): 0o700, h.Path(): 0o700, h.Path("sessions"): 0o700, s.Path(): 0o700,
		s.Path("state.json"): 0o600, s.Path("lock"): 0o600,
	} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestT10HomeThatOthersCouldWriteIsRefused(t *testing.T) {
	need.Root(t)
	for name, mode := range map[string]os.FileMode{"safe": 0o755, "others": 0o757, "group": 0o775} {
		parent := filepath.Join(t.TempDir(), "parent")
		if err := errors.Join(os.Mkdir(parent, 0o755), os.Chown(parent, 0, 12345), os.Chmod(parent, mode)); err != nil {
			t.Fatal(err)
		}
		h, err := Open(filepath.Join(parent, "home"))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Make(); (err == nil) != (name == "safe") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func anchor(id string, n uint64, hash string) wire.Anchor {
	return wire.Anchor{ControlID: id, Count: n, Hash: strings.Repeat(hash, 64), Chain: json.RawMessage("{}")}
}

// TestK8AnchorIsNeverLowered: many launchers at once, and whatever comes last.
func TestK8AnchorIsNeverLowered(t *testing.T) {
	h := newHome(t)
	if a, err := h.Anchor("local"); a != nil || err != nil {
		t.Fatalf("before first use: %v, %v", a, err)
	}
	var wg sync.WaitGroup
	for n := range 40 {
		wg.Go(func() {
			if err := h.RaiseAnchor("local", anchor("c", uint64(n+1), fmt.Sprint(n%10))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for name, next := range map[string]wire.Anchor{
		"another control":         anchor("other", 50, "1"),
		"another act of its time": anchor("c", 40, "0"),
	} {
		if err := h.RaiseAnchor("local", next); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if err := h.RaiseAnchor("local", anchor("c", 7, "6")); err != nil {
		t.Error(err)
	}
	if a, err := h.Anchor("local"); err != nil || a.Count != 40 || a.ControlID != "c" {
		t.Errorf("the anchor is %+v, %v", a, err)
	}
	if err := h.ResetAnchor("local", anchor("other", 3, "1")); err != nil {
		t.Error(err)
	}
	if a, err := h.Anchor("local"); err != nil || a.Count != 3 {
		t.Errorf("after the operator's reset: %+v, %v", a, err)
	}
}

func TestSessionLock(t *testing.T) {
	h := newHome(t)
	s, err := h.NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !h.Busy(s.ID) {
		t.Error("a held session is not busy")
	}
	if _, err := h.Lock(t.Context(), s.ID); !errors.Is(err, ErrBusy) {
		t.Errorf("second lock: %v", err)
	}
	if err := errors.Join(s.Unlock(), s.Unlock()); err != nil {
		t.Fatal(err)
	}
	if h.Busy(s.ID) {
		t.Error("a free session is busy")
	}
	again, err := h.Lock(t.Context(), s.ID)
	if err != nil || again.State.Session != s.ID {
		t.Errorf("lock after unlock: %+v, %v", again, err)
	}
}

func TestSessionIDs(t *testing.T) {
	for range 100 {
		if id := newSessionID(); !ValidSession(id) {
			t.Errorf("%q is not valid", id)
		}
	}
	for _, bad := range []string{"", "short", "../../../etc", "ABCDEFGHIJKL", "abcdefghijkl1"} {
		if ValidSession(bad) {
			t.Errorf("%q is valid", bad)
		}
	}
}

func TestStateFilesAreReadStrictly(t *testing.T) {
	h := newHome(t)
	s, err := h.NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Unlock() }()
	if _, err := h.State(s.ID); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path("state.json"), []byte(`{"schema":"x","Schema":"y"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if st, err := h.State(s.ID); err == nil {
		t.Errorf("read %+v", st)
	}
}

func TestKeepSealKeepsTheOneBefore(t *testing.T) {
	h := newHome(t)
	for n := 1; n <= 2; n++ {
		m := h.Path("manifest")
		if err := os.WriteFile(m, []byte{byte('0' + n)}, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.KeepSeal("abc", n, []byte{byte('0' + n)}, m); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		h.SealPath("abc"): "2", h.SealPath("abc") + ".1": "1",
		h.ManifestPath("abc"): "2", h.ManifestPath("abc") + ".1": "1",
	} {
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v", path, b, err)
		}
	}
}
