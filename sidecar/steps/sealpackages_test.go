package steps_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/proctor-project/proctor/sidecar/product"
	"github.com/proctor-project/proctor/sidecar/seal"
	"github.com/proctor-project/proctor/sidecar/steps"
	"github.com/proctor-project/proctor/sidecar/wire"
)

// packed is a package's archive and its integrity.
func packed(t *testing.T, files map[string]string) ([]byte, string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(b.Bytes())
	return b.Bytes(), "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func (c *control) cached(integrity string, data []byte) {
	c.Helper()
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(integrity, "sha512-"))
	c.must(err)
	dir := filepath.Join(c.layout.Cache, "sha512")
	c.must(os.MkdirAll(dir, 0o700))
	c.must(os.WriteFile(filepath.Join(dir, hex.EncodeToString(sum)), data, 0o600))
}

// TestPackagesInTheVerdict installs a package: unapproved it fails, approved and
// in the cache it passes, and once the approval is gone nothing is applied.
func TestPackagesInTheVerdict(t *testing.T) {
	archive, integrity := packed(t, map[string]string{"index.js": "module.exports = 1\n"})
	lock := `{"lockfileVersion":3,"packages":{"":{},"node_modules/left-pad":{"version":"1.3.0","integrity":"` + integrity + `"}}}`
	policy := plainPolicy + "packages: {registry: \"" + testRegistry + "/\"}\n"
	good := map[string]string{
		"package-lock.json": lock, "node_modules/.package-lock.json": lock, "node_modules/left-pad/index.js": "module.exports = 1\n",
	}
	judge := func(c *control, id string, files map[string]string) (seal.Predicate, []byte) {
		t.Helper()
		_, before := c.tree(map[string]string{"a.txt": "one\n", "test.sh": "exit 0\n"})
		reply, err := c.tryOpen(c.openRequest(id, policy), before)
		c.must(err)
		o := &opened{control: c, id: id, layout: c.sessionLayout(id), before: before, reply: reply}
		o.head = o.rows("closed") // what serve opens doors for is not asked here
		_, after := c.tree(files)
		in := o.input()
		in.stream, in.req.BeforeChecks = after, treeOf(t, after)
		sealed, p, err := o.seal(in)
		c.must(err)
		return p, sealed.Seal
	}
	with := func(more map[string]string) map[string]string {
		all := map[string]string{"a.txt": "one\n", "test.sh": "exit 0\n"}
		for n, s := range good {
			all[n] = s
		}
		for n, s := range more {
			all[n] = s
		}
		return all
	}
	c := newControl(t)
	if p, _ := judge(c, "session1abcd", with(nil)); p.Verdict != seal.Fail || len(p.Findings) != 2 || p.Findings[1].Kind != "package-unapproved" || p.Findings[1].Package.Places != 2 {
		t.Fatalf("unapproved: %s %+v", p.Verdict, p.Findings)
	}
	c.approveOne(wire.Package{Registry: testRegistry, Name: "left-pad", Version: "1.3.0", Integrity: integrity})
	if p, _ := judge(c, "session2abcd", with(nil)); p.Verdict != seal.Fail || len(p.Findings) != 1 || p.Findings[0].Kind != "dependency" {
		t.Fatalf("approved, not in the cache: %s %+v", p.Verdict, p.Findings)
	}
	evil, _ := packed(t, map[string]string{"index.js": "evil"})
	c.cached(integrity, evil)
	if p, _ := judge(c, "session3abcd", with(map[string]string{"node_modules/left-pad/index.js": "evil"})); p.Verdict != seal.Fail {
		t.Fatalf("other bytes in the cache: %s %+v", p.Verdict, p.Findings)
	}
	c.cached(integrity, archive)
	if p, _ := judge(c, "session4abcd", with(map[string]string{"node_modules/left-pad/index.js": "evil"})); p.Verdict != seal.Fail || len(p.Findings) != 1 {
		t.Fatalf("other files: %s %+v", p.Verdict, p.Findings)
	}
	p, env := judge(c, "session5abcd", with(nil))
	if p.Verdict != seal.Pass || len(p.PackageApprovals) != 1 || p.PackageApprovals[0].Integrity != integrity || p.PackageApprovals[0].Act == 0 {
		t.Fatalf("approved: %s %v %+v", p.Verdict, p.Reasons, p.PackageApprovals)
	}
	apply := func() error { return steps.CheckApply(t.Context(), c.layout, bytes.NewReader(env), &bytes.Buffer{}) }
	c.must(apply())
	if _, err := c.packages("revoke", wire.Package{Name: "left-pad"}); err != nil {
		t.Fatal(err)
	}
	if err := apply(); err == nil || !strings.Contains(err.Error(), "left-pad@1.3.0") {
		t.Fatalf("revoked: %v", err)
	}
	// The same again is another act: the operator may have looked at other things.
	c.approveOne(wire.Package{Registry: testRegistry, Name: "left-pad", Version: "1.3.0", Integrity: integrity})
	if err := apply(); err == nil {
		t.Fatal("approved anew, without a new audit")
	}
}

// treeOf is the tree digest that a stream ends with.
func treeOf(t *testing.T, stream []byte) string {
	t.Helper()
	dec := product.NewDecoder(bytes.NewReader(stream), product.StreamLimits{})
	for {
		_, err := dec.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sum, err := dec.Summary()
	if err != nil {
		t.Fatal(err)
	}
	return sum.Tree
}

func (c *control) approveOne(p wire.Package) {
	c.Helper()
	_, err := c.packages("approve", p)
	c.must(err)
}
