package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"testing"
)

// member is one entry of an archive that a test makes.
type member struct {
	name, content string
	kind          byte
}

func tarball(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, m := range members {
		if m.kind == 0 {
			m.kind = tar.TypeReg
		}
		h := &tar.Header{Name: m.name, Typeflag: m.kind, Mode: 0o755, Size: int64(len(m.content)), Format: tar.FormatPAX}
		if m.kind != tar.TypeReg {
			h.Size, h.Linkname = 0, m.content
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if m.kind == tar.TypeReg {
			if _, err := w.Write([]byte(m.content)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadArchive(t *testing.T) {
	tests := []struct {
		name    string
		members []member
		files   string // path=content, sorted
		bins    string
	}{
		{"files", []member{{name: "package/a.js", content: "1"}, {name: "package/lib/b.js", content: "2"}}, "a.js=1 lib/b.js=2", ""},
		{"another first part", []member{{name: "left-pad/a.js", content: "1"}}, "a.js=1", ""},
		{"no second part", []member{{name: "a.js", content: "1"}, {name: "package/b.js", content: "2"}}, "b.js=2", ""},
		{"links and devices", []member{
			{name: "package/l", content: "a.js", kind: tar.TypeSymlink},
			{name: "package/h", content: "package/a.js", kind: tar.TypeLink},
			{name: "package/f", kind: tar.TypeFifo},
			{name: "package/d/", kind: tar.TypeDir},
			{name: "package/a.js", content: "1"},
		}, "a.js=1", ""},
		{"the last of two counts", []member{{name: "package/a.js", content: "1"}, {name: "package/a.js", content: "2"}}, "a.js=2", ""},
		{"ignores", []member{{name: "package/.gitignore", content: "1"}, {name: "package/x/.npmignore", content: "2"}, {name: "package/x/.gitignore", content: "3"}}, ".npmignore=1 x/.npmignore=2", ""},
		{"one program", []member{{name: "package/package.json", content: `{"name":"@s/tool","bin":"./cli.js"}`}, {name: "package/cli.js"}}, "cli.js= package.json=" + `{"name":"@s/tool","bin":"./cli.js"}`, "tool=cli.js"},
		{"programs", []member{{name: "package/package.json", content: `{"bin":{"a":"x/../cli.js","../../b":"cli.js","c":"none.js"}}`}, {name: "package/cli.js"}}, "cli.js= package.json=" + `{"bin":{"a":"x/../cli.js","../../b":"cli.js","c":"none.js"}}`, "a=cli.js b=cli.js"},
		{"a bundled program", []member{
			{name: "package/node_modules/@s/b/package.json", content: `{"bin":{"b":"x.js"}}`},
			{name: "package/node_modules/@s/b/x.js"},
			{name: "package/lib/package.json", content: `{"bin":{"evil":"y.js"}}`},
			{name: "package/lib/y.js"},
		}, `lib/package.json={"bin":{"evil":"y.js"}} lib/y.js= node_modules/@s/b/package.json={"bin":{"b":"x.js"}} node_modules/@s/b/x.js=`, "node_modules/@s/b:b=x.js"},
		{"a directory of programs", []member{{name: "package/package.json", content: `{"directories":{"bin":"./bin"}}`}, {name: "package/bin/x"}}, "bin/x= package.json=" + `{"directories":{"bin":"./bin"}}`, "x=bin/x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := ReadArchive(bytes.NewReader(tarball(t, tt.members...)))
			if err != nil {
				t.Fatal(err)
			}
			want := map[string][32]byte{}
			for f := range strings.SplitSeq(tt.files, " ") {
				name, content, _ := strings.Cut(f, "=")
				want[name] = sha256.Sum256([]byte(content))
			}
			if !maps.Equal(a.Files, want) {
				t.Errorf("files %v, want %s", slices.Sorted(maps.Keys(a.Files)), tt.files)
			}
			var bins []string
			for _, dir := range slices.Sorted(maps.Keys(a.Bins)) {
				for _, name := range slices.Sorted(maps.Keys(a.Bins[dir])) {
					bins = append(bins, strings.TrimPrefix(dir+":", ":")+name+"="+a.Bins[dir][name])
				}
			}
			if got := strings.Join(bins, " "); got != tt.bins {
				t.Errorf("programs %q, want %q", got, tt.bins)
			}
		})
	}
}

func TestReadArchiveRefuses(t *testing.T) {
	for name, data := range map[string][]byte{
		"not gzip":       []byte("x"),
		"empty":          nil,
		"gzip of no tar": gzipped(t, strings.Repeat("x", 4096)),
		"cut":            tarball(t, member{name: "package/a.js", content: strings.Repeat("ab", 5000)})[:60],
		"a path upwards": tarball(t, member{name: "package/../../a.js"}),
		"upwards, later": tarball(t, member{name: "package/x/../../../a.js"}),
		"absolute":       tarball(t, member{name: "/package/a.js"}),
		"twice absolute": tarball(t, member{name: "package//a.js"}),
		"a dot":          tarball(t, member{name: "package/./a.js"}),
		"a backslash":    tarball(t, member{name: `package/..\a.js`}),
		"too long":       tarball(t, member{name: "package/" + strings.Repeat("a/", 3000) + "b"}),
	} {
		if a, err := ReadArchive(bytes.NewReader(data)); err == nil {
			t.Errorf("%s: %v", name, a.Files)
		}
	}
}

func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func FuzzReadArchive(f *testing.F) {
	f.Add(tarball(f, member{name: "package/package.json", content: `{"bin":"a.js"}`}, member{name: "package/a.js", content: "x"}))
	f.Add(tarball(f, member{name: "package/../a.js"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := ReadArchive(bytes.NewReader(data))
		if err != nil {
			return
		}
		for name := range a.Files {
			if strings.HasPrefix(name, "/") || strings.Contains("/"+name+"/", "/../") {
				t.Fatalf("a file at %q", name)
			}
		}
	})
}
