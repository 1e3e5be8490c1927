package safedir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/proctor-project/proctor/keys/safedir"
)

func TestT11NotInProductOrCheckout(t *testing.T) {
	base := t.TempDir()
	at := func(names ...string) string { return filepath.Join(append([]string{base}, names...)...) }
	for _, d := range []string{"product/sub", "control", "home/.git", "home/state", "near/.git"} {
		must(t, os.MkdirAll(at(d), 0o700))
	}
	for _, m := range []string{".git", ".mcp.json", "package.json", "pyproject.toml", "proctor.yaml"} {
		must(t, os.MkdirAll(at("co", m, "sub"), 0o700))
		must(t, os.MkdirAll(at("file"+m, "sub"), 0o700))
		must(t, os.WriteFile(at("file"+m, m), nil, 0o600))
	}
	must(t, os.Symlink(at("product"), at("link")))
	must(t, os.Symlink("link", at("link2")))
	must(t, os.Symlink(at("product/sub"), at("deep")))
	must(t, os.Symlink(at("nowhere"), at("dangling")))
	must(t, os.Symlink(at("control"), at("good")))
	o := safedir.Outside{Products: []string{at("link")}, Home: at("home")}
	for path, inside := range map[string]bool{
		at("control"):         false,
		at("control/not/yet"): false,
		at("good/x"):          false,
		at("home/state"):      false,
		at("near"):            true,
		at("product"):         true,
		at("product/sub"):     true,
		at("product/not/yet"): true,
		at("link"):            true,
		at("link2/sub"):       true,
		at("deep"):            true,
		at("deep/not/yet"):    true,
		at("link2/not/yet"):   true,
		base + "/control/missing/../../product/sub": true,
		base + "/missing/../link/sub":               true,
		at("file.git/sub"):                          true,
		at("file.mcp.json/sub/not/yet"):             true,
		at("filepackage.json/sub"):                  true,
		at("filepyproject.toml/sub"):                true,
		at("fileproctor.yaml/sub"):                  true,
		at("co/package.json/sub"):                   true,
	} {
		if err := o.Check(path); errors.Is(err, safedir.ErrInside) != inside || (!inside && err != nil) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"relative", at("dangling"), at("dangling/x")} {
		if err := o.Check(path); err == nil {
			t.Errorf("%s: accepted", path)
		}
	}
	o.Home = ""
	if err := o.Check(at("home/state")); !errors.Is(err, safedir.ErrInside) {
		t.Errorf("another's dotfiles: %v", err)
	}
	o.Products = []string{at("gone")}
	if err := o.Check(at("control")); err == nil {
		t.Error("a product that cannot be looked at")
	}
}

// TestT11BindMount: the same directory under another name.
func TestT11BindMount(t *testing.T) {
	needRoot(t)
	base := t.TempDir()
	p, other := filepath.Join(base, "product"), filepath.Join(base, "other")
	must(t, os.MkdirAll(filepath.Join(p, "sub"), 0o700))
	must(t, os.Mkdir(other, 0o700))
	o := safedir.Outside{Products: []string{p}}
	must(t, o.Check(filepath.Join(other, "sub")))
	if err := unix.Mount(p, other, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(other, unix.MNT_DETACH)) })
	if err := o.Check(filepath.Join(other, "sub")); !errors.Is(err, safedir.ErrInside) {
		t.Fatalf("got %v", err)
	}
}
