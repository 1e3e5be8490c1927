package policy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// host is a directory with what a session must not reach, and what it may.
func host(t *testing.T) (dir string, places []Place) {
	t.Helper()
	// Not t.TempDir: a socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp("", "sources")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, d := range []string{"keys", "control/ledger", "product/src", "engine/data", "engine/sock", "other", "tools/bin"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []string{"engine/sock/engine.sock", "other/unknown.sock"} {
		l, err := net.Listen("unix", filepath.Join(dir, s))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	if err := os.WriteFile(filepath.Join(dir, "tools/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]string{
		"the engine's socket": "engine/sock/engine.sock", "the engine's data root": "engine/data",
		"control": "control", "the keys": "keys", "the product": "product",
	} {
		loc, err := Locate(filepath.Join(dir, at))
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, Place{what, loc})
	}
	return dir, places
}

func mountPolicy(t *testing.T, source string) *Policy {
	t.Helper()
	p, err := Parse("FILE", fmt.Appendf(nil, "version: 1\nagent:\n  mounts:\n    - source: %q\n      target: /mnt\n", source))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRefuseSources(t *testing.T) {
	dir, places := host(t)
	link := func(to string) string {
		name := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	in := func(p string) string { return filepath.Join(dir, p) }
	for _, c := range []struct{ name, source, want string }{
		{"engine socket", in("engine/sock/engine.sock"), "is the engine's socket"},
		{"directory of the engine socket", in("engine/sock"), "holds the engine's socket"},
		{"directory above it", in("engine"), "holds the engine's"},
		{"data root", in("engine/data"), "is the engine's data root"},
		{"control", in("control"), "is control"},
		{"part of control", in("control/ledger"), "lies in control"},
		{"keys", in("keys"), "is the keys"},
		{"product", in("product"), "is the product"},
		{"part of the product", in("product/src"), "lies in the product"},
		{"above everything", dir, "holds "},
		{"unknown socket", in("other/unknown.sock"), "is a Unix socket"},
		{"directory of an unknown socket", in("other"), `holds the Unix socket "unknown.sock"`},
		{"root", "/", "holds "},
		{"proc", "/proc", "is, holds or lies in the host's proc"},
		{"part of proc", "/proc/sys", "is, holds or lies in the host's proc"},
		{"sys", "/sys", "is, holds or lies in the host's sys"},
		{"dev", "/dev", "/dev"},
		{"run", "/run", "/run"},
		{"var run", "/var/run", "/var/run"},
		{"link to control", link(in("control")), "is control"},
		{"link to a part of the product", link(in("product/src")), "lies in the product"},
		{"link to the engine socket", link(in("engine/sock/engine.sock")), "is the engine's socket"},
		{"link to a link", link(link(in("keys"))), "is the keys"},
		{"link to the root", link("/"), "holds "},
		{"missing", in("nothing"), "no such file or directory"},
		{"dangling link", link(in("nothing")), "no such file or directory"},
		// The positive controls: the same call, allowed.
		{"tools", in("tools"), ""},
		{"file", in("tools/file"), ""},
		{"link to tools", link(in("tools/bin")), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := mountPolicy(t, filepath.Clean(c.source)).RefuseSources(Locate, places)
			if c.want == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			if !strings.HasPrefix(err.Error(), "FILE:4: agent.mounts[0].source: ") {
				t.Errorf("error %v names neither line nor field", err)
			}
		})
	}
}

// TestRefuseSourcesUnderAnotherName mounts control a second time: no name of it
// leads back to the first one.
func TestRefuseSourcesUnderAnotherName(t *testing.T) {
	dir, places := host(t)
	alias := filepath.Join(dir, "tools/bin")
	if err := unix.Mount(filepath.Join(dir, "control"), alias, "", unix.MS_BIND, ""); err != nil {
		if errors.Is(err, unix.EPERM) && os.Getenv("CI") == "" {
			t.Skip("needs root for a bind mount")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(alias, unix.MNT_DETACH) })
	for _, s := range []string{alias, filepath.Join(alias, "ledger")} {
		if err := mountPolicy(t, s).RefuseSources(Locate, places); err == nil || !strings.Contains(err.Error(), "control") {
			t.Errorf("%s: error %v", s, err)
		}
	}
}

func TestSourcesAreAllJudged(t *testing.T) {
	doc := `version: 1
agent:
  image: {kind: rootfs, ref: /bad/0}
  mounts: [{source: /bad/1, target: /a}, {source: /good, target: /b}]
checks:
  - {name: a, argv: [a], image: {kind: rootfs, ref: /bad/2}, files: [{from: /bad/3, to: x}]}
  - {name: b, argv: [b]}
`
	p, err := Parse("FILE", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	locate := func(path string) (Location, error) { return Location{Path: path}, nil }
	err = p.RefuseSources(locate, []Place{{"bad", Location{Path: "/bad"}}})
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	want := []string{
		`FILE:3: agent.image.ref: "/bad/0" lies in bad ("/bad")`,
		`FILE:4: agent.mounts[0].source: "/bad/1" lies in bad ("/bad")`,
		`FILE:6: checks[0].image.ref: "/bad/2" lies in bad ("/bad")`,
		`FILE:6: checks[0].files[0].from: "/bad/3" lies in bad ("/bad")`,
	}
	if got := strings.Join(e.Lines(), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}
