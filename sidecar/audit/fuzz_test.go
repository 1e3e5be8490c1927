package audit

import (
	"bytes"
	"crypto/sha1"
	"testing"

	"github.com/proctor-project/proctor/sidecar/product"
)

func FuzzExtract(f *testing.F) {
	for path, content := range map[string]string{
		".git/config":        "[core]\n\tfsmonitor = \"a\\\"b\" ; c\n[include \"x\"]\npath=../y\n",
		"package.json":       `{"scripts":{"test":"x","postinstall":"y\u0000"}}`,
		".vscode/tasks.json": "// x\n{\"a\": \"folderOpen\", /* \" */}",
		"sub/.git":           "gitdir: ../.git/modules/sub\n",
		".git/commondir":     "..\n",
		".git/index":         "DIRC\x00\x00\x00\x02\x00\x00\x00\x00",
		".git/hooks/update":  "#!",
	} {
		f.Add(path, []byte(content))
	}
	f.Fuzz(func(t *testing.T, path string, content []byte) {
		x := NewExtractor()
		facts := x.Extract(product.Entry{Path: path, Type: product.TypeFile, Size: int64(len(content))}, content)
		if len(facts) > maxPerFile+1 || len(x.pending) > maxPending {
			t.Errorf("%d facts", len(facts))
		}
		// Every fact fits a stream, if the path does.
		enc := product.NewEncoder(new(bytes.Buffer))
		if enc.Entry(product.Entry{Path: path, Type: product.TypeFile}) != nil {
			return
		}
		for _, fact := range facts {
			if err := enc.Fact(fact); err != nil {
				t.Error(err)
			}
		}
	})
}

func FuzzParseGitConfig(f *testing.F) {
	f.Add("[a]\nb=c\n[d \"e\"]\nf\n[g.h] i = \"j\\n\" k ; l\n")
	f.Add("[core]\n\teditor = a\\\n b\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		settings, err := parseGitConfig(s)
		if err != nil {
			return
		}
		for _, v := range settings {
			if v.section == "" || v.key == "" {
				t.Errorf("%q: %+v", s, v)
			}
		}
	})
}

func FuzzIndexDigest(f *testing.F) {
	body := []byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01")
	body = append(body, bytes.Repeat([]byte{1}, 60)...)
	body = append(body, 0, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 0, 0)
	f.Add(body)
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := sha1.Sum(b)
		_, _ = IndexDigest(append(b[:len(b):len(b)], sum[:]...))
		_, _ = IndexDigest(b)
	})
}

func FuzzJSONC(f *testing.F) {
	f.Add(`{"a": "folderOpen"}`)
	f.Fuzz(func(_ *testing.T, s string) { _, _ = jsoncHasString(s, "folderOpen") })
}
