package steps

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/proctor-project/proctor/keys"
	"github.com/proctor-project/proctor/sidecar/ledger"
)

// TestFollowingContinuesItsOwnChain: of two rotations of one key, the one that
// was followed first stays; the other is not taken over, however long it is.
func TestFollowingContinuesItsOwnChain(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(dir, "ledger"), 0o700))
	layout := Layout{Ledger: filepath.Join(dir, "ledger")}
	one := filepath.Join(dir, "one")
	must(os.Mkdir(one, 0o700))
	root, err := keys.CreateRoot(one, layout.Rules)
	must(err)
	two := filepath.Join(dir, "two")
	must(os.CopyFS(two, os.DirFS(one)))
	must(os.Chmod(two, 0o700))
	files, err := filepath.Glob(two + "/*")
	must(err)
	for _, f := range files {
		must(os.Chmod(f, 0o600))
	}
	other, err := keys.OpenRoot(two, layout.Rules)
	must(err)
	f := &following{layout: layout, opened: 1, chain: root.Chain()}
	verified := func(r *keys.Root) error {
		t.Helper()
		must(publish(layout, r.Chain()))
		s, err := r.Signer(keys.DomainLedger, r.Current(), "")
		must(err)
		env, err := s.Sign(t.Context(), ledger.HeadType, []byte("{}"))
		must(err)
		_, err = f.Verify(env, ledger.HeadType)
		return err
	}
	root, err = root.Rotate(keys.Routine)
	must(err)
	if err := verified(root); err != nil {
		t.Fatalf("a rotation is not followed: %v", err)
	}
	for range 2 {
		other, err = other.Rotate(keys.Routine)
		must(err)
		if verified(other) == nil {
			t.Errorf("another chain of %d epochs is followed", other.Current())
		}
	}
	if err := verified(root); err != nil {
		t.Errorf("its own is not followed any more: %v", err)
	}
}
