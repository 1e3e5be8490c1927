package inside

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestC3OperatorsFileWins: whatever the agent left at the operator's place, or
// on the way to it, the operator's file is there afterwards, and nothing outside
// the product was touched.
func TestC3OperatorsFileWins(t *testing.T) {
	for name, plant := range map[string]func(product, outside string) error{
		"nothing":               func(string, string) error { return nil },
		"a file":                func(p, _ string) error { return write(p+"/tests/unit/t.py", "planted", 0o400) },
		"a link to a file":      func(p, o string) error { return link(o+"/canary", p+"/tests/unit/t.py") },
		"a link to nothing":     func(p, o string) error { return link(o+"/new", p+"/tests/unit/t.py") },
		"a link to a directory": func(p, o string) error { return link(o, p+"/tests/unit/t.py") },
		"a FIFO": func(p, _ string) error {
			return errors.Join(os.MkdirAll(p+"/tests/unit", 0o755), unix.Mkfifo(p+"/tests/unit/t.py", 0o600))
		},
		"a full directory": func(p, o string) error {
			return errors.Join(write(p+"/tests/unit/t.py/a/b", "x", 0o600), link(o, p+"/tests/unit/t.py/out"))
		},
		"a link for a parent":      func(p, o string) error { return link(o, p+"/tests/unit") },
		"a link for the first one": func(p, o string) error { return link(o, p+"/tests") },
		"a file for a parent":      func(p, _ string) error { return write(p+"/tests", "x", 0o600) },
		"a hard link": func(p, o string) error {
			return errors.Join(os.MkdirAll(p+"/tests/unit", 0o755), os.Link(o+"/canary", p+"/tests/unit/t.py"))
		},
		"a closed parent": func(p, _ string) error {
			return errors.Join(write(p+"/tests/unit/t.py", "planted", 0o400), os.Chmod(p+"/tests/unit", 0o500))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			product, outside, from := dir+"/product", dir+"/outside", dir+"/operators"
			err := errors.Join(os.Mkdir(product, 0o755), write(outside+"/canary", "canary", 0o644), write(from, "the operator's", 0o755))
			if err := errors.Join(err, plant(product, outside)); err != nil {
				t.Fatal(err)
			}
			if err := layAll([]Lay{{From: from, Dir: product, To: "tests/unit/t.py"}}); err != nil {
				t.Fatal(err)
			}
			place := product + "/tests/unit/t.py"
			info, err := os.Lstat(place)
			if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o700 != 0o700 {
				t.Errorf("at the place: %v, %v", info, err)
			}
			if b, err := os.ReadFile(place); err != nil || string(b) != "the operator's" {
				t.Errorf("the place has %q, %v", b, err)
			}
			if resolved, err := filepath.EvalSymlinks(place); err != nil || !strings.HasSuffix(resolved, "/product/tests/unit/t.py") {
				t.Errorf("the place is %q, %v", resolved, err)
			}
			if b, err := os.ReadFile(outside + "/canary"); err != nil || string(b) != "canary" {
				t.Errorf("the canary is %q, %v", b, err)
			}
			if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
				t.Errorf("outside there are %v, %v", names, err)
			}
		})
	}
}

func write(path, text string, mode os.FileMode) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode))
}

func link(target, path string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path))
}

func TestLayThatCannotBeMeant(t *testing.T) {
	for _, bad := range []string{"", "a", "/f=/p", "f=/p=a", "/f=p=a", "/f=/p=", "/f=/p=.", "/f=/p=..", "/f=/p=../a", "/f=/p=a/../../b", "/f=/p=/a", "/f=/p=a//b", "/f=/p=a=b", "/f=/p=./a"} {
		if l, err := ParseLay([]string{"/f=/p=good", bad}); err == nil {
			t.Errorf("%q: %+v", bad, l)
		}
	}
	for _, good := range []string{"/f=/p=a", "/f=/p=a/b", "/f=/p=..a", "/f=/p=a b"} {
		if _, err := ParseLay([]string{good}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

// TestProve: mounts that are not what was asked for are named, and a probe
// leaves nothing.
func TestProve(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir+"/one", "", 0o600); err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]Config{
		"":                              {Writable: []string{dir}, Entries: map[string]int{dir: 1}},
		"is writable, and must be":      {ReadOnly: []string{dir}},
		"shows 1 entries, and must":     {Entries: map[string]int{dir: 2}},
		"no such file or directory":     {Writable: []string{dir + "/none"}},
		"count entries: open ":          {Entries: map[string]int{dir + "/none": 0}},
		"probe mount \"/proc/self/fd\"": {Writable: []string{"/proc/self/fd"}},
	} {
		err := prove(cfg)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("the probes left %v, %v", names, err)
	}
}

func FuzzParseLay(f *testing.F) {
	f.Add("/f=/p=a/b")
	f.Add("/f=/p=../b")
	f.Fuzz(func(t *testing.T, arg string) {
		all, err := ParseLay([]string{arg})
		if err != nil {
			return
		}
		l := all[0]
		if !filepath.IsLocal(l.To) || l.From+"="+l.Dir+"="+l.To != arg {
			t.Errorf("%q is %+v", arg, l)
		}
	})
}

func FuzzParseEntries(f *testing.F) {
	f.Add("/p=3")
	f.Add("/p=a=3")
	f.Add("=1")
	f.Fuzz(func(t *testing.T, arg string) {
		all, err := ParseEntries(arg)
		if err != nil {
			return
		}
		for dir, n := range all {
			if n < 0 || dir == "" || !strings.HasPrefix(arg, dir+"=") {
				t.Errorf("%q is %q, %d", arg, dir, n)
			}
		}
	})
}
