package product_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/product"
)

func sample(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := product.NewEncoder(&buf)
	must(t, enc.Entry(product.Entry{Path: "a", Type: product.TypeDir, Mode: 0o755}))
	must(t, enc.Entry(product.Entry{Path: "a/\xff\n", Type: product.TypeFile, Mode: 0o644, Size: 3, SHA256: [32]byte{1}}))
	must(t, enc.Blob([]byte("abc")))
	must(t, enc.Fact(product.Fact{Path: "a/\xff\n", Kind: product.FactGitHook, Name: "n\"", Detail: "d\x01é"}))
	must(t, enc.Entry(product.Entry{Path: "b", Type: product.TypeSymlink, Mode: 0o777, Size: 1, SHA256: [32]byte{2}}))
	_, err := enc.Close()
	must(t, err)
	return buf.Bytes()
}

func TestStreamRoundTrip(t *testing.T) {
	c, sum, err := decode(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.entries) != 3 || len(c.facts) != 1 || !sum.Complete || sum.Entries != 3 || sum.Facts != 1 || sum.Bytes != 3 {
		t.Errorf("%+v %+v", c, sum)
	}
	if f := c.facts[0]; f.Path != "a/\xff\n" || f.Name != "n\"" || f.Detail != "d\x01é" {
		t.Errorf("%+v", f)
	}
}

// Every single byte counts: no stream with one byte changed, or cut anywhere,
// or continued, is accepted as the same.
func TestStreamRefusesEveryDamage(t *testing.T) {
	good := sample(t)
	_, want, _ := decode(good)
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, sum, err := decode(bad); err == nil && sum == want && !bytes.Contains(good, []byte("abc")) {
			t.Errorf("byte %d changed: accepted", i)
		} else if err != nil && !errors.Is(err, product.ErrStream) {
			t.Errorf("byte %d changed: %v", i, err)
		} else if err == nil && !inBlob(good, i) {
			t.Errorf("byte %d (%q) changed: accepted", i, good[i])
		}
		if _, _, err := decode(good[:i]); !errors.Is(err, product.ErrStream) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	if _, _, err := decode(append(bytes.Clone(good), 'x')); !errors.Is(err, product.ErrStream) {
		t.Errorf("continued: %v", err)
	}
}

func inBlob(b []byte, i int) bool {
	at := bytes.Index(b, []byte("abc"))
	return i >= at && i < at+3
}

func frame(kind byte, payload string) []byte {
	b := []byte{kind, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(b[1:], uint32(len(payload)))
	return append(b, payload...)
}

func TestStreamRefusals(t *testing.T) {
	head := frame('H', "proctor tree stream v1\n")
	entry := func(s string) []byte { return frame('E', s) }
	const hex = "0101010101010101010101010101010101010101010101010101010101010101"
	ok := `{"path":"a","type":"file","mode":420,"size":1,"sha256":"` + hex + `"}`
	for name, frames := range map[string][][]byte{
		"no header":       {entry(ok)},
		"two headers":     {head, head},
		"unknown frame":   {head, frame('Q', "")},
		"huge frame":      {head, {'E', 0xff, 0xff, 0xff, 0xff}},
		"twice":           {head, entry(ok), entry(ok)},
		"order":           {head, entry(strings.Replace(ok, `"a"`, `"b"`, 1)), entry(ok)},
		"dot dot":         {head, entry(strings.Replace(ok, `"a"`, `"a/../b"`, 1))},
		"absolute":        {head, entry(strings.Replace(ok, `"a"`, `"/a"`, 1))},
		"empty path":      {head, entry(strings.Replace(ok, `"a"`, `""`, 1))},
		"NUL":             {head, entry(strings.Replace(ok, `"a"`, `"\u0000"`, 1))},
		"needless escape": {head, entry(strings.Replace(ok, `"a"`, `"\u0061"`, 1))},
		"upper-case hex":  {head, entry(strings.Replace(ok, `"a"`, `"\u001F"`, 1))},
		"valid base64":    {head, entry(strings.Replace(ok, `"path":"a"`, `"path_base64":"YQ=="`, 1))},
		"unknown type":    {head, entry(strings.Replace(ok, `"file"`, `"door"`, 1))},
		"mode":            {head, entry(strings.Replace(ok, `420`, `40000`, 1))},
		"leading zero":    {head, entry(strings.Replace(ok, `420`, `0420`, 1))},
		"negative":        {head, entry(strings.Replace(ok, `"size":1`, `"size":-1`, 1))},
		"duplicate key":   {head, entry(strings.Replace(ok, `"size":1`, `"size":1,"size":2`, 1))},
		"case":            {head, entry(strings.Replace(ok, `"size"`, `"Size"`, 1))},
		"space":           {head, entry(strings.Replace(ok, `,`, `, `, 1))},
		"trailing":        {head, entry(ok + " ")},
		"zero digest":     {head, entry(strings.Replace(ok, hex, strings.Repeat("0", 64), 1))},
		"fact kind":       {head, frame('F', `{"path":"a","kind":"nice","name":"","detail":"","sha256":"`+hex+`"}`)},
		"lying end":       {head, entry(ok), frame('Z', `{"complete":true,"entries":1,"facts":0,"bytes":1,"tree":"","worktree":"","git_exec":""}`)},
	} {
		if _, _, err := decode(bytes.Join(frames, nil)); !errors.Is(err, product.ErrStream) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Positive control: the same frames are fine up to the missing end.
	dec := product.NewDecoder(bytes.NewReader(bytes.Join([][]byte{head, entry(ok)}, nil)), product.StreamLimits{})
	if item, err := dec.Next(); err != nil || item.Entry == nil || item.Entry.Path != "a" {
		t.Errorf("positive control: %v", err)
	}
	if _, err := dec.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("end missing: %v", err)
	}
	if _, err := dec.Summary(); err == nil {
		t.Error("summary of half a stream")
	}
}

func TestStreamLimits(t *testing.T) {
	for name, l := range map[string]product.StreamLimits{"entries": {Entries: 2}, "bytes": {Bytes: 100}} {
		dec := product.NewDecoder(bytes.NewReader(sample(t)), l)
		var err error
		for err == nil {
			_, err = dec.Next()
		}
		if !errors.Is(err, product.ErrStream) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestManifestOfStream(t *testing.T) {
	var m bytes.Buffer
	sha, sum, err := product.ManifestOf(bytes.NewReader(sample(t)), &m, product.StreamLimits{})
	must(t, err)
	r := product.NewManifestReader(bytes.NewReader(m.Bytes()))
	n := 0
	for ; ; n++ {
		if _, err = r.Next(); err != nil {
			break
		}
	}
	if tree, worktree := r.Trees(); err != io.EOF || n != 3 || r.Digest() != sha || tree != sum.Tree || worktree != sum.Worktree {
		t.Errorf("%d entries, %v", n, err)
	}
	for i := range m.Len() {
		if _, err := entriesOf(m.Bytes()[:i]); err == nil && i > 0 && m.Bytes()[i-1] != '\n' {
			t.Errorf("cut at %d: accepted", i)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add(sample(f))
	f.Add([]byte("H\x00\x00\x00\x17proctor tree stream v1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dec := product.NewDecoder(bytes.NewReader(b), product.StreamLimits{})
		var again bytes.Buffer
		enc := product.NewEncoder(&again)
		for {
			item, err := dec.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return
			}
			switch {
			case item.Entry != nil:
				must(t, enc.Entry(*item.Entry))
			case item.Fact != nil:
				must(t, enc.Fact(*item.Fact))
			default:
				must(t, enc.Blob(item.Blob))
			}
		}
		if _, err := enc.Close(); err != nil || !bytes.Equal(again.Bytes(), b) {
			t.Errorf("not stable: %q, %q", b, again.Bytes())
		}
	})
}

func FuzzManifestReader(f *testing.F) {
	var m bytes.Buffer
	if _, _, err := product.ManifestOf(bytes.NewReader(sample(f)), &m, product.StreamLimits{}); err != nil {
		f.Fatal(err)
	}
	f.Add(m.Bytes())
	f.Add([]byte(`{"path":"\u0001","type":"dir","mode":0,"size":0}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := entriesOf(b)
		if err != nil {
			return
		}
		var again bytes.Buffer
		w := product.NewManifestWriter(&again)
		for _, e := range entries {
			must(t, w.Entry(e))
		}
		if _, err := w.Close(); err != nil || !bytes.Equal(again.Bytes(), b) {
			t.Errorf("not stable: %q, %q", b, again.Bytes())
		}
	})
}

// entriesOf reads a whole manifest.
func entriesOf(b []byte) ([]product.Entry, error) {
	m := product.NewManifestReader(bytes.NewReader(b))
	var all []product.Entry
	for {
		e, err := m.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
}
